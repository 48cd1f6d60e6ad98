//! Name resolution for concurrent connections: one look-up per name, a few at a time, cancelled when no connection
//! waits for it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use stockade_protocol::HostName;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use crate::Resolver;

/// Concurrent look-ups; each may be a process.
const MOST_AT_ONCE: usize = 8;
/// Queued look-ups.
const MOST_WAITING: usize = 256;

/// The addresses, or the error.
type Found = Result<Vec<IpAddr>, String>;

/// The look-ups of one gate.
pub(crate) struct LookUps {
    resolver: Arc<dyn Resolver>,
    turns: Arc<Semaphore>,
    running: Mutex<HashMap<HostName, Weak<LookUp>>>,
}

/// One look-up, which runs as long as a connection waits for it.
struct LookUp {
    task: AbortHandle,
    answer: watch::Receiver<Option<Found>>,
}

impl Drop for LookUp {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LookUps {
    pub(crate) fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, turns: Arc::new(Semaphore::new(MOST_AT_ONCE)), running: Mutex::default() }
    }

    /// The addresses of a name. Dropping the future ends the wait.
    pub(crate) async fn addresses(&self, name: &HostName) -> Found {
        let look_up = self.join(name)?;
        let mut answer = look_up.answer.clone();
        match answer.wait_for(Option::is_some).await {
            Ok(found) => found.clone().unwrap_or_else(|| Ok(Vec::new())),
            Err(_) => Err(String::from("it was broken off")),
        }
    }

    /// The running look-up of this name, or a new one.
    fn join(&self, name: &HostName) -> Result<Arc<LookUp>, String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look_up) = running.get(name).and_then(Weak::upgrade) {
            return Ok(look_up);
        }
        running.retain(|_, look_up| look_up.strong_count() > 0);
        if running.len() >= MOST_AT_ONCE + MOST_WAITING {
            return Err(format!("{} other names are being looked up", running.len()));
        }
        let look_up = Arc::new(self.begin(name.clone()));
        running.insert(name.clone(), Arc::downgrade(&look_up));
        Ok(look_up)
    }

    fn begin(&self, name: HostName) -> LookUp {
        let (sender, answer) = watch::channel(None);
        let (resolver, turns) = (Arc::clone(&self.resolver), Arc::clone(&self.turns));
        let task = tokio::spawn(async move {
            // Never closed.
            let _turn = turns.acquire().await;
            let found = resolver.resolve(name).await.map_err(|error| error.to_string());
            sender.send_replace(Some(found));
        });
        LookUp { task: task.abort_handle(), answer }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use stockade_protocol::Host;

    use super::*;
    use crate::BoxFuture;

    /// Takes a second for each look-up and counts the concurrent ones.
    #[derive(Default)]
    struct Slow {
        now: Arc<AtomicUsize>,
        most: AtomicUsize,
        all: AtomicUsize,
    }

    struct Going(Arc<AtomicUsize>);

    impl Drop for Going {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Resolver for Slow {
        fn resolve(&self, _: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
            Box::pin(async {
                self.all.fetch_add(1, Ordering::Relaxed);
                let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
                let _going = Going(Arc::clone(&self.now));
                self.most.fetch_max(now, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(vec!["192.0.2.1".parse().unwrap()])
            })
        }
    }

    fn name(text: &str) -> HostName {
        let Host::Name(name) = text.parse().unwrap() else { panic!("`{text}` is an address") };
        name
    }

    fn start(look_ups: &Arc<LookUps>, text: &str) -> tokio::task::JoinHandle<Found> {
        let (look_ups, name) = (Arc::clone(look_ups), name(text));
        tokio::spawn(async move { look_ups.addresses(&name).await })
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_looked_up_once_for_all_who_wait() {
        let slow = Arc::new(Slow::default());
        let look_ups = Arc::new(LookUps::new(Arc::<Slow>::clone(&slow)));
        let waiting: Vec<_> = (0..400).map(|_| start(&look_ups, "a.test")).collect();
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap().len(), 1);
        }
        assert_eq!(slow.all.load(Ordering::Relaxed), 1);
        // Results are not cached: a name may resolve differently for the next connection.
        look_ups.addresses(&name("a.test")).await.unwrap();
        assert_eq!(slow.all.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn few_names_are_looked_up_at_a_time() {
        let slow = Arc::new(Slow::default());
        let look_ups = Arc::new(LookUps::new(Arc::<Slow>::clone(&slow)));
        let waiting: Vec<_> = (0..400).map(|number| start(&look_ups, &format!("n{number}.test"))).collect();
        let mut found = 0;
        for one in waiting {
            found += usize::from(one.await.unwrap().is_ok());
        }
        assert_eq!(slow.most.load(Ordering::Relaxed), MOST_AT_ONCE);
        assert_eq!(found, MOST_AT_ONCE + MOST_WAITING, "the others were refused at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_ends_with_the_last_who_waits() {
        let slow = Arc::new(Slow::default());
        let look_ups = Arc::new(LookUps::new(Arc::<Slow>::clone(&slow)));
        let (first, second) = (start(&look_ups, "a.test"), start(&look_ups, "a.test"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        first.abort();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(slow.now.load(Ordering::Relaxed), 1, "one still waits");
        second.abort();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(slow.now.load(Ordering::Relaxed), 0);
        assert!(look_ups.addresses(&name("a.test")).await.is_ok());
    }
}
