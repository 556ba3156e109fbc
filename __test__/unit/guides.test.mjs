// The code in the guides is the code of the examples.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const read = (path) => readFileSync(new URL(path, root), 'utf8')

test('a block that names a file is that file, without its first line', () => {
  const blocks = readdirSync(new URL('docs/guides/', root)).flatMap((guide) => [
    ...read(`docs/guides/${guide}`).matchAll(/<!-- (\S+) -->\n```js\n(.*?)```/gs),
  ])
  for (const [, path, code] of blocks) expect(code).toBe(read(path).replace(/^.*\n/, ''))
  expect(blocks.map(([, path]) => path)).toEqual(['examples/oauth/file-provider.mjs', 'examples/oauth/loopback.mjs'])
})
