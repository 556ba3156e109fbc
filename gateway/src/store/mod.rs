//! What outlives a process: one database, its migrations, and the seal over every secret in it.
//!
//! Owns the pool and the canary. Times are milliseconds since 1970. Statements use `$1`-style parameters and SQL that
//! SQLite and PostgreSQL read alike.

mod migrations;

use lite_agent::base::secret::Secret;
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use sqlx::{AnyPool, Row};
use url::Url;

use crate::data_dir::{DataDir, DataDirError};
use crate::seal::{MasterKey, Place, SealError, Sealer};

const FILE: &str = "gateway.sqlite";
/// SQLite has one writer at a time; more connections than this only wait.
const CONNECTIONS: u32 = 8;
const CANARY: &str = "canary";
const SONG: &str = "this database belongs to this key";

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database.
    #[error("the database failed while {doing}")]
    Database {
        doing: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// Its tables.
    #[error("the database's tables cannot be brought up to date; was it used by a newer version?")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Its file.
    #[error(transparent)]
    File(#[from] DataDirError),
    /// The canary does not sing.
    #[error(
        "the database was written with another encryption key; start with that key (LITE_GATEWAY_KEY or --key-file), nothing was changed"
    )]
    WrongKey,
    /// A secret.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// Names what was being done when the database failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Database { doing: what, source })
    }
}

/// The database of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pool: AnyPool,
    sealer: Sealer,
}

impl Store {
    /// Opens the SQLite database in the data directory, and makes it when it is missing.
    pub(crate) async fn open(folder: &DataDir, key: &MasterKey) -> Result<Self, StoreError> {
        install_default_drivers();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await?;
                    sqlx::query("PRAGMA busy_timeout = 10000").execute(&mut *connection).await?;
                    Ok(())
                })
            })
            .connect(&sqlite_url(folder)?)
            .await
            .doing("it was opened")?;
        migrations::run(&pool).await?;
        let store = Self { pool, sealer: Sealer::new(key) };
        store.check_key().await?;
        Ok(store)
    }

    /// Whether the database answers.
    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(&self.pool).await.doing("it was asked for a sign of life").map(drop)
    }

    /// Lets go of every connection, and of the write-ahead log with the last one.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Refuses a key that did not write this database.
    async fn check_key(&self) -> Result<(), StoreError> {
        let canary = self.secret(CANARY, || Ok(Secret::new(SONG))).await;
        match canary {
            Ok(song) if song.expose() == SONG => Ok(()),
            Ok(_) | Err(StoreError::Seal(SealError::Broken)) => Err(StoreError::WrongKey),
            Err(error) => Err(error),
        }
    }

    /// A secret of the gateway itself; made on first use, by one of all that ask at once.
    async fn secret(
        &self,
        name: &str,
        fresh: impl FnOnce() -> Result<Secret, SealError>,
    ) -> Result<Secret, StoreError> {
        let place = Place { table: "secrets", row: name, column: "value" };
        let doing = "a secret of the gateway was read";
        let read = || sqlx::query("SELECT value FROM secrets WHERE name = $1").bind(name).fetch_optional(&self.pool);
        let mut row = read().await.doing(doing)?;
        if row.is_none() {
            let sealed = self.sealer.seal(place, &fresh()?)?;
            sqlx::query("INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
                .bind(name)
                .bind(sealed)
                .execute(&self.pool)
                .await
                .doing("a secret of the gateway was made")?;
            row = read().await.doing(doing)?;
        }
        let sealed: String = row.ok_or(sqlx::Error::RowNotFound).and_then(|row| row.try_get(0)).doing(doing)?;
        Ok(self.sealer.open(place, &sealed)?)
    }
}

fn sqlite_url(folder: &DataDir) -> Result<String, StoreError> {
    let path = folder.touch(FILE)?;
    let unusable = || sqlx::Error::Configuration("the data directory's path is not absolute".into());
    let url = Url::from_file_path(path).map_err(|()| unusable()).doing("its address was made")?;
    Ok(format!("sqlite://{}?mode=rwc", url.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[tokio::test]
    async fn a_wrong_key_is_refused_and_changes_nothing() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(scratch.path()).unwrap();
        let key = MasterKey::random().unwrap();
        let store = Store::open(&folder, &key).await.unwrap();
        store.ping().await.unwrap();
        store.close().await;

        let wrong = Store::open(&folder, &MasterKey::random().unwrap()).await;
        assert!(matches!(wrong, Err(StoreError::WrongKey)), "{wrong:?}");
        Store::open(&folder, &key).await.unwrap().close().await;
    }

    #[tokio::test]
    async fn odd_paths_are_paths() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(&scratch.path().join("a b?c#d%20 ü")).unwrap();
        Store::open(&folder, &MasterKey::random().unwrap()).await.unwrap().close().await;
        assert!(folder.file(FILE).metadata().unwrap().len() > 0);
    }

    #[tokio::test]
    async fn a_secret_of_the_gateway_is_made_once() {
        let scratch = Scratch::new();
        let folder = DataDir::prepare(scratch.path()).unwrap();
        let store = Store::open(&folder, &MasterKey::random().unwrap()).await.unwrap();
        let ask = |text: &'static str| store.secret("x", move || Ok(Secret::new(text)));
        let (one, two) = tokio::join!(ask("one"), ask("two"));
        assert_eq!(one.unwrap(), two.unwrap());
        store.close().await;
    }
}
