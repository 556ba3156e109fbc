//! The fixed limits on what a server may send or take and on what is kept of it, in one place.

use std::time::Duration;

/// Longest line of a stdio server, and the largest HTTP response, in bytes.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// Deepest nesting of a JSON result.
pub const JSON_DEPTH: usize = 128;
/// How many saved sessions that nobody uses an agent keeps in memory.
pub const SESSIONS_IN_MEMORY: usize = 8;
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
/// How much progress of one call may wait to be told, in bytes.
pub const PROGRESS_BYTES: usize = 4 * 1024 * 1024;
/// How long an HTTP connection may take to open.
pub const HTTP_CONNECT: Duration = Duration::from_secs(10);
/// How long an unused HTTP connection is kept: below the 200 ms after which the quickest servers hang up, since a
/// request on a connection that is closing cannot be sent again safely.
pub const HTTP_IDLE: Duration = Duration::from_millis(150);
/// How long a silent HTTP connection waits before it asks whether the other side is still there.
pub const HTTP_KEEPALIVE: Duration = Duration::from_secs(15);
/// How long a catalog waits for its subscription to be acknowledged; it is read again when that comes later.
pub const LISTEN_ACKNOWLEDGED: Duration = Duration::from_secs(1);
/// The first and the longest wait before a subscription is opened again; they double, with jitter.
pub const LISTEN_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// How long a subscription must have lasted for the waits to start over.
pub const LISTEN_STABLE: Duration = Duration::from_secs(10);
/// How often in a row a subscription, or reading the catalog again, may fail before the server counts as out
/// of reach.
pub const LISTEN_FAILURES: usize = 5;
/// How long a refresh that was sent may take to be answered and saved after its connection was closed.
pub const OAUTH_REFRESH_GRACE: Duration = Duration::from_secs(5);
/// How often a request that makes the connection may be refused with 401; a later one is sent again once.
pub const OAUTH_REFUSALS: usize = 3;
/// Largest answer of an authorization server, in bytes.
pub const OAUTH_BYTES: usize = 1024 * 1024;
/// Longest callback URL of a sign-in, in bytes.
pub const OAUTH_CALLBACK_BYTES: usize = 64 * 1024;
/// How often one operation of a server may lead to a sign-in before more scope is not asked for any more.
pub const OAUTH_SIGN_INS: usize = 3;
/// How long a process may take to end after its input closes, and again after it is asked to stop.
pub const CLOSE_GRACE: Duration = Duration::from_millis(1500);
/// Most servers of one agent.
pub const SERVERS: usize = 32;
/// Longest full tool name, in characters.
pub const TOOL_NAME_CHARS: usize = 64;
/// Largest text of one result for the model, in bytes.
pub const PROJECTION_BYTES: usize = 4 * 1024 * 1024;
/// Above this many bytes a result goes to the session's archive.
pub const ARCHIVE_THRESHOLD: usize = 16 * 1024;
/// How much of an archived result the model sees at once, in characters.
pub const ARCHIVE_PREVIEW_CHARS: usize = 1000;
/// Longest page that `context` reads, in UTF-16 units.
pub const CONTEXT_PAGE_CHARS: usize = 16_000;
/// How much archived text `context` gives in one turn, in bytes.
pub const CONTEXT_TURN_BYTES: usize = 16 * 1024;
/// Most hits of one search with `context`.
pub const CONTEXT_HITS: usize = 5;
/// Longest text that `context` searches for, in characters.
pub const CONTEXT_QUERY_CHARS: usize = 256;
/// How much `context` shows around a hit, in characters.
pub const CONTEXT_HIT_CHARS: usize = 200;
/// Largest transcript of a session, in bytes.
pub const TRANSCRIPT_BYTES: u64 = 128 * 1024 * 1024;
/// Longest session id, in bytes of its file name.
pub const SESSION_NAME_BYTES: usize = 200;
/// Longest text that a host's failing tool or its policy shows, in characters.
pub const HOST_TEXT_CHARS: usize = 1024;
/// How long a host's policy or schema may take.
pub const HOST_DEADLINE: Duration = Duration::from_secs(10);
/// Up to this many bytes a result's structured content is read at once; larger ones on a thread that may block.
pub const QUICK_CHECK_BYTES: usize = 16 * 1024;
/// How long checking a value against a server's schema may take.
pub const VALIDATION_DEADLINE: Duration = Duration::from_secs(2);
/// How many events may wait for a run's own consumer, and how many of tools for the subscribers.
pub const QUEUED_EVENTS: usize = 1024;
/// How many events cross to a run's consumer at once, at most.
pub const EVENT_BATCH: usize = 64;
