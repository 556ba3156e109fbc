// `npm run demo`: sets everything up, then runs the demo with the same arguments.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { build, main, root } from './build.mjs'

await main(() => {
  build()
  const { status, signal } = spawnSync(
    process.execPath,
    [join(root, 'examples', 'demo.mjs'), ...process.argv.slice(2)],
    {
      stdio: 'inherit',
    },
  )
  process.exitCode = signal ? 1 : status
})
