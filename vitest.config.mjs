// vitest: the shim, the built addon, the gateway and the pinned lists. Each file runs in a process of its own.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/{unit,e2e,gateway,pins}/**/*.test.mjs'],
    globalSetup: '__test__/servers/home.mjs',
    pool: 'forks',
    isolate: true,
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
