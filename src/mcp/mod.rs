//! MCP servers, protocol revision 2026-07-28 only.

// As written, and checked.
pub mod config;

// Which servers there are, in which state, and who may change that.
pub mod registry;

// What a server offers: names, schemas.
pub mod catalog;

// What their commands run inside.
pub mod sandbox;

// Who is asked for a token, and what is done with it.
pub mod oauth;

// One live server.
pub mod connection;

// The bytes.
pub mod transport;
