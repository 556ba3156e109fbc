//! What every module may use: error codes, faults as data, limits, secrets, tasks, processes.

pub mod code;
pub mod emitter;
pub mod env;
pub mod fault;
pub mod limits;
pub mod process;
pub mod redact;
pub mod secret;
pub mod suggest;
pub mod task;
