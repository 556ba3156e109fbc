//! The fixed limits on what a server may send or take, in one place.

use std::time::Duration;

/// Longest line of a stdio server, and the largest HTTP response, in bytes.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// Deepest nesting of a JSON result.
pub const JSON_DEPTH: usize = 128;
/// Most pages of one catalog.
pub const CATALOG_PAGES: usize = 16;
/// Most tools of one server.
pub const CATALOG_TOOLS: usize = 128;
/// Largest configuration file, in bytes.
pub const CONFIG_FILE_BYTES: usize = 256 * 1024;
/// Largest catalog of one server, in bytes.
pub const CATALOG_BYTES: usize = 512 * 1024;
/// Longest progress message, in characters.
pub const PROGRESS_MESSAGE_CHARS: usize = 1024;
/// How long an HTTP connection may take to open.
pub const HTTP_CONNECT: Duration = Duration::from_secs(10);
/// How long an unused HTTP connection is kept; below the five seconds after which common servers hang up.
pub const HTTP_IDLE: Duration = Duration::from_secs(2);
/// How long a process may take to end after its input closes, and again after it is asked to stop.
pub const CLOSE_GRACE: Duration = Duration::from_millis(1500);
/// Most servers of one agent.
pub const SERVERS: usize = 32;
/// Longest full tool name, in characters.
pub const TOOL_NAME_CHARS: usize = 64;
/// Largest text of one result for the model, in bytes.
pub const PROJECTION_BYTES: usize = 4 * 1024 * 1024;
/// Longest text that a host's failing tool or its policy shows, in characters.
pub const HOST_TEXT_CHARS: usize = 1024;
/// How long a host's policy or schema may take.
pub const HOST_DEADLINE: Duration = Duration::from_secs(10);
/// How long checking a value against a server's schema may take.
pub const VALIDATION_DEADLINE: Duration = Duration::from_secs(2);
/// How many events may wait for a run's own consumer, and how many of tools for the subscribers.
pub const QUEUED_EVENTS: usize = 1024;
/// How many events cross to a run's consumer at once, at most.
pub const EVENT_BATCH: usize = 64;
