//! Calls whose clock stands still, because a person is asked for more scope meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The paused requests of one connection, by id.
pub(crate) struct Pauses(watch::Sender<HashSet<i64>>);

/// Stops a request's clock until it is dropped.
pub(crate) struct Pause<'a> {
    pauses: &'a Pauses,
    id: i64,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// Stops the clock of a request.
    pub(crate) fn pause(&self, id: i64) -> Pause<'_> {
        self.0.send_modify(|paused| {
            paused.insert(id);
        });
        Pause { pauses: self, id }
    }

    /// Resolves when `after` has passed on the request's clock; its id may become known later.
    pub(crate) async fn run_out(&self, after: Duration, id: impl Fn() -> Option<i64>) {
        let (mut left, mut changes) = (after, self.0.subscribe());
        loop {
            let is_paused = {
                let paused = changes.borrow_and_update();
                id().is_some_and(|id| paused.contains(&id))
            };
            let began = Instant::now();
            if is_paused {
                let _ = changes.changed().await;
            } else if tokio::time::timeout(left, changes.changed()).await.is_err() {
                return;
            } else {
                left = left.saturating_sub(began.elapsed());
            }
        }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.pauses.0.send_modify(|paused| {
            paused.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_a_paused_request_stands_still_and_others_run_on() {
        let pauses = Pauses::new();
        let after = Duration::from_secs(10);
        let began = Instant::now();
        let hold = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let pause = pauses.pause(1);
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(pause);
        };
        let run_out = |id| {
            let pauses = &pauses;
            async move {
                pauses.run_out(after, || Some(id)).await;
                began.elapsed().as_secs()
            }
        };
        let (late, other, ()) = tokio::join!(run_out(1), run_out(2), hold);
        assert_eq!((late, other), (110, 10));
    }
}
