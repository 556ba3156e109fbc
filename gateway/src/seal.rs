//! Secrets at rest: one authenticated cipher, and the place a secret belongs to bound into every text it makes.
//!
//! A sealed text opens only in the table, row and column it was made for, and only with the key that made it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use lite_agent::base::secret::Secret;
use zeroize::Zeroizing;

/// Length of the key, in bytes.
pub(crate) const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// What a sealed text begins with: XChaCha20-Poly1305, nonce first.
const VERSION: &str = "v1.";

/// Why a secret could not be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    /// The key file or variable holds something else.
    #[error("it must be {KEY_BYTES} bytes in Base64")]
    Key,
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
    /// Another key, another place, or changed bytes.
    #[error("a stored secret does not open: it was written with another key, or changed")]
    Broken,
}

/// The key that seals everything.
#[derive(Clone)]
pub(crate) struct MasterKey(Zeroizing<[u8; KEY_BYTES]>);

impl MasterKey {
    /// A new one.
    pub(crate) fn random() -> Result<Self, SealError> {
        Ok(Self(random_bytes()?))
    }

    /// Reads a key as an operator writes it; blanks around it do not count.
    pub(crate) fn parse(text: &str) -> Result<Self, SealError> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| SealError::Key)?);
        let array: [u8; KEY_BYTES] = bytes.as_slice().try_into().map_err(|_| SealError::Key)?;
        Ok(Self(Zeroizing::new(array)))
    }

    /// The key as it is written to a file.
    pub(crate) fn to_text(&self) -> Secret {
        Secret::new(STANDARD.encode(*self.0))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

/// Where a secret is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) table: &'static str,
    pub(crate) row: &'a str,
    pub(crate) column: &'static str,
}

impl Place<'_> {
    /// The associated data: no two places give the same bytes.
    fn bound(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [self.table, self.row, self.column] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

/// Seals and opens with one key.
#[derive(Clone)]
pub(crate) struct Sealer(XChaCha20Poly1305);

impl Sealer {
    pub(crate) fn new(key: &MasterKey) -> Self {
        Self(XChaCha20Poly1305::new(&Key::from(*key.0)))
    }

    /// The text to store for a secret.
    pub(crate) fn seal(&self, place: Place<'_>, secret: &Secret) -> Result<String, SealError> {
        let nonce: Zeroizing<[u8; NONCE_BYTES]> = random_bytes()?;
        let payload = Payload { msg: secret.expose().as_bytes(), aad: &place.bound() };
        let sealed = self.0.encrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::Broken)?;
        Ok(format!("{VERSION}{}", STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat())))
    }

    /// The secret of a stored text.
    pub(crate) fn open(&self, place: Place<'_>, sealed: &str) -> Result<Secret, SealError> {
        let text = sealed.strip_prefix(VERSION).ok_or(SealError::Broken)?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| SealError::Broken)?;
        let (nonce, body) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Broken)?;
        let payload = Payload { msg: body, aad: &place.bound() };
        let plain = Zeroizing::new(self.0.decrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::Broken)?);
        std::str::from_utf8(&plain).map(Secret::new).map_err(|_| SealError::Broken)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(…)")
    }
}

/// Bytes nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, SealError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| SealError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place<'_> = Place { table: "servers", row: "7", column: "header" };

    fn sealer() -> Sealer {
        Sealer::new(&MasterKey::random().unwrap())
    }

    #[test]
    fn a_secret_opens_where_it_was_sealed_and_nowhere_else() {
        let own = sealer();
        let sealed = own.seal(HERE, &Secret::new("hunter2 ü")).unwrap();

        assert!(!sealed.contains("hunter2"));
        assert_eq!(own.open(HERE, &sealed).unwrap().expose(), "hunter2 ü");
        for other in [
            Place { table: "clients", ..HERE },
            Place { row: "8", ..HERE },
            Place { column: "token", ..HERE },
            // The same letters, cut elsewhere.
            Place { row: "", column: "7header", ..HERE },
        ] {
            assert_eq!(own.open(other, &sealed), Err(SealError::Broken), "{other:?}");
        }
    }

    #[test]
    fn another_key_and_changed_bytes_do_not_open() {
        let own = sealer();
        let sealed = own.seal(HERE, &Secret::new("hunter2")).unwrap();
        assert_eq!(sealer().open(HERE, &sealed), Err(SealError::Broken));
        for at in VERSION.len()..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(own.open(HERE, &changed), Err(SealError::Broken), "byte {at}");
        }
        for odd in ["", "v1.", "v2.AAAA", "hunter2"] {
            assert_eq!(own.open(HERE, odd), Err(SealError::Broken), "{odd}");
        }
        assert_ne!(sealed, own.seal(HERE, &Secret::new("hunter2")).unwrap(), "each nonce is new");
    }

    #[test]
    fn a_key_is_32_bytes_in_base64() {
        let key = MasterKey::random().unwrap();
        let text = key.to_text();
        assert_eq!(*MasterKey::parse(&format!(" {}\n", text.expose())).unwrap().0, *key.0);
        for odd in ["", "hunter2", "AAAA", &"A".repeat(44)] {
            assert_eq!(MasterKey::parse(odd).err(), Some(SealError::Key), "{odd}");
        }
        assert_eq!(format!("{key:?} {:?}", Sealer::new(&key)), "MasterKey(…) Sealer(…)");
    }
}
