//! What every module may use: error codes, faults as data, limits, secrets, tasks, processes, HTTP clients.

pub mod clock;
pub mod code;
pub mod emitter;
pub mod env;
pub mod fault;
pub mod http;
pub mod limits;
pub mod process;
pub mod secret;
pub mod suggest;
pub mod task;
