// The code in the README and the guides is the code of the examples.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const read = (path) => readFileSync(new URL(path, root), 'utf8')

test('a block that names a file is that file, without its first line', () => {
  const guides = readdirSync(new URL('docs/guides/', root)).map((guide) => `docs/guides/${guide}`)
  const blocks = ['README.md', ...guides].flatMap((guide) => [
    ...read(guide).matchAll(/<!-- (\S+) -->\n```js\n(.*?)```/gs),
  ])
  for (const [, path, code] of blocks) expect(code).toBe(read(path).replace(/^.*\n/, ''))
  expect(blocks.map(([, path]) => path)).toEqual([
    'examples/hello.mjs',
    'examples/oauth/file-provider.mjs',
    'examples/oauth/loopback.mjs',
  ])
})
