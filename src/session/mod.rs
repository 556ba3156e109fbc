//! What a session leaves on disk. So far: [`paths`], where its files are.

pub mod paths;
