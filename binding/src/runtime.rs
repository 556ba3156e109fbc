//! The threads that move bytes and run the loop, for all agents of a process.

use std::num::NonZero;
use std::thread::available_parallelism;

use tokio::runtime::Builder;

/// As many threads as a busy process has use for beside Node's own.
const MOST_WORKERS: usize = 4;

/// Sets the runtime up when the addon is loaded, which is when the first agent is made. Half of the cores is left to
/// Node's main thread and to the servers: more workers only take turns with them.
#[napi_derive::module_init]
fn prepare() {
    let cores = available_parallelism().map_or(2, NonZero::get);
    let workers = (cores / 2).clamp(1, MOST_WORKERS);
    let built = Builder::new_multi_thread().worker_threads(workers).thread_name("lite-agent").enable_all().build();
    // Without it, napi's own runtime serves as well, with a thread for each core.
    if let Ok(runtime) = built {
        napi::bindgen_prelude::create_custom_tokio_runtime(runtime);
    }
}
