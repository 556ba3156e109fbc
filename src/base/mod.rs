//! What every module may use: error codes, faults as data, limits, secrets, tasks, processes, private files, HTTP clients,
//! the rule for addresses.

pub mod clock;
pub mod code;
pub mod digest;
pub mod emitter;
pub mod env;
pub mod fault;
pub mod files;
pub mod http;
pub mod limits;
pub mod process;
pub mod redact;
pub mod secret;
pub mod suggest;
pub mod task;
pub mod text;
pub mod web_url;
