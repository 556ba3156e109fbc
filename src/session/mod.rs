//! What a session leaves on disk: [`paths`] is where its files are, [`transcript`] the messages in them.

pub mod paths;
pub mod transcript;
