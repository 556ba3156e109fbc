//! The key of a gateway, which seals what is stored.
//!
//! It comes from its variable, a file the operator names, or a private file in the data directory, made on the first start.

use std::path::PathBuf;

use crate::data_dir::{DataDir, DataDirError, read_private};
use crate::environment;
use crate::seal::{MasterKey, SealError};

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// A file.
    #[error(transparent)]
    Files(#[from] DataDirError),
    /// The sealing key is not one.
    #[error(
        "the encryption key ({origin}) is not usable; it must be 32 bytes in Base64, as `openssl rand -base64 32` makes them"
    )]
    Master {
        origin: String,
        #[source]
        source: SealError,
    },
    /// Random bytes.
    #[error(transparent)]
    Random(#[from] SealError),
}

/// Reads the sealing key, and makes it when it is missing.
pub(crate) fn master(folder: &DataDir, key_file: Option<PathBuf>) -> Result<MasterKey, KeyError> {
    let (origin, text) = if let Some(text) = environment::secret("LITE_GATEWAY_KEY") {
        ("LITE_GATEWAY_KEY".to_owned(), text)
    } else if let Some(path) = key_file {
        (path.display().to_string(), read_private(&path)?)
    } else {
        let text = folder.read_or_create("key", || Ok::<_, SealError>(MasterKey::random()?.to_text()))??;
        (folder.file("key").display().to_string(), text)
    };
    MasterKey::parse(text.expose()).map_err(|source| KeyError::Master { origin, source })
}

#[cfg(test)]
mod tests {
    use lite_agent::base::secret::Secret;

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_key_is_made_once() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(scratch.path()).unwrap();
        let load = || master(&folder, None).unwrap().to_text();
        assert_eq!(load(), load());
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(scratch.path()).unwrap();
        folder.read_or_create("key", || Ok::<_, SealError>(Secret::new("hunter2"))).unwrap().unwrap();
        let refused = master(&folder, None).unwrap_err();
        assert!(matches!(&refused, KeyError::Master { .. }));
        assert!(!refused.to_string().contains("hunter2"));
    }
}
