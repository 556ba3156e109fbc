// ava: a small suite that shows that users of ava are served.
export default { files: ['__test__/ava/*.mjs'], timeout: '60s' }
