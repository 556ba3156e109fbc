//! The tables, version by version. A migration that was released is never edited.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use sqlx::AnyPool;
use sqlx::error::BoxDynError;
use sqlx::migrate::{Migration, MigrationSource, MigrationType, Migrator};

use super::StoreError;

/// Each version's name and statements, in order; the first is version 1.
const VERSIONS: &[(&str, &str)] = &[("secrets", include_str!("../../migrations/0001_secrets.sql"))];

#[derive(Debug)]
struct Versions;

impl MigrationSource<'static> for Versions {
    fn resolve(self) -> Pin<Box<dyn Future<Output = Result<Vec<Migration>, BoxDynError>> + Send>> {
        let migrations = (1..).zip(VERSIONS).map(|(version, (name, sql))| {
            Migration::new(version, Cow::Borrowed(*name), MigrationType::Simple, Cow::Borrowed(*sql), false)
        });
        let migrations = migrations.collect();
        Box::pin(async { Ok(migrations) })
    }
}

/// Brings the tables up to date, one process at a time.
pub(super) async fn run(pool: &AnyPool) -> Result<(), StoreError> {
    let migrator = Migrator::new(Versions).await.map_err(StoreError::Migrate)?;
    migrator.run(pool).await.map_err(StoreError::Migrate)
}
