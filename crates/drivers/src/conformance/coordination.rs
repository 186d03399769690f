//! The rules of [`Coordinator`] and [`Arbiter`].

use std::{
    collections::BTreeSet,
    num::NonZeroU16,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, join_all};
use gnudi_model::{Sack, SackCount, SackId};

use crate::coordination::{Arbiter, CoordinationError, Coordinator, Session};

/// A new, empty coordinator, and its clock.
pub struct CoordinationSetup {
    /// At least two processes of one cluster, with connections of their own where the driver has any.
    pub processes: Vec<Arc<dyn Coordinator>>,
    /// The shortest TTL that the driver supports.
    pub ttl: Duration,
    /// Lets time pass.
    pub pass: Box<dyn Fn(Duration) -> BoxFuture<'static, ()>>,
    /// How much later than its TTL a session may end.
    pub ends_late_by: Duration,
}

impl CoordinationSetup {
    /// On an engine, whose time is the real one.
    pub fn on_engine<C: Coordinator>(
        processes: impl IntoIterator<Item = Arc<C>>,
        ttl: Duration,
        ends_late_by: Duration,
    ) -> Self {
        let processes = processes.into_iter().map(|process| process as Arc<dyn Coordinator>).collect();
        Self { processes, ttl, pass: Box::new(|time| Box::pin(tokio::time::sleep(time))), ends_late_by }
    }

    fn one(&self) -> &dyn Coordinator {
        &*self.processes[0]
    }

    fn two(&self) -> &dyn Coordinator {
        &*self.processes[1]
    }

    /// Joins with a TTL longer than the test.
    async fn join(&self, process: usize, name: &str) -> Session {
        self.processes[process].join(name, "{}", Duration::from_mins(10)).await.unwrap()
    }

    /// Two processes, with the sessions `a` and `b`.
    async fn joined(&self) -> [(&dyn Coordinator, Session); 2] {
        [(self.one(), self.join(0, "a").await), (self.two(), self.join(1, "b").await)]
    }

    /// Lets a session of `ttl` expire.
    async fn outlive(&self) {
        (self.pass)(self.ttl + self.ends_late_by).await;
    }
}

/// Runs all tests of [`Coordinator`] on a driver; each call of `make` must give an empty one.
pub async fn coordination(make: impl AsyncFn() -> CoordinationSetup) {
    nobody(&make().await).await;
    members_come_and_go(&make().await).await;
    a_name_joins_again(&make().await).await;
    one_owner_for_each_sack(&make().await).await;
    tokens_grow_over_all_sacks(&make().await).await;
    owned_sacks_keep_their_tokens(&make().await).await;
    released_sacks_are_free(&make().await).await;
    sacks_of_other_counts_are_others(&make().await).await;
    leaving_frees_everything(&make().await).await;
    what_is_not_renewed_ends(&make().await).await;
    what_is_renewed_stays(&make().await).await;
    tokens_advance(&make().await).await;
    many_sacks_in_one_trip(&make().await).await;
    many_acquirers_at_once(&make().await).await;
    many_join_at_once(&make().await).await;
}

/// Runs all tests of [`Arbiter`] on a driver; each call of `make` must give an empty one, as two processes'
/// clients.
pub async fn arbiter<A: Arbiter>(make: impl AsyncFn() -> [Arc<A>; 2]) {
    the_first_claim_stands(&make().await).await;
    concurrent_claims_have_one_winner(&make().await).await;
    claims_are_seen_at_once(&make().await).await;
}

const COUNT: u16 = 64;

fn sack(id: u16) -> Sack {
    Sack { count: SackCount(NonZeroU16::new(COUNT).unwrap()), id: SackId(id) }
}

fn sacks(ids: impl IntoIterator<Item = u16>) -> Vec<Sack> {
    ids.into_iter().map(sack).collect()
}

async fn acquire(coordinator: &dyn Coordinator, session: Session, ids: &[u16]) -> Vec<Option<u64>> {
    coordinator.acquire(session, &sacks(ids.iter().copied())).await.unwrap()
}

async fn token(coordinator: &dyn Coordinator, session: Session, id: u16) -> u64 {
    acquire(coordinator, session, &[id]).await[0].expect("the sack is free")
}

async fn owned(coordinator: &dyn Coordinator) -> Vec<(Sack, Session, u64)> {
    let owned = coordinator.ownerships().await.unwrap();
    owned.into_iter().map(|owned| (owned.sack, owned.session, owned.token)).collect()
}

async fn names(coordinator: &dyn Coordinator) -> Vec<String> {
    coordinator.members().await.unwrap().into_iter().map(|member| member.name).collect()
}

async fn nobody(setup: &CoordinationSetup) {
    let one = setup.one();
    assert_eq!(names(one).await, [""; 0]);
    assert_eq!(owned(one).await, []);
    let stranger = Session(12_345);
    assert_eq!(one.acquire(stranger, &[sack(1)]).await, Err(CoordinationError::Expired));
    assert_eq!(one.acquire(stranger, &[]).await, Err(CoordinationError::Expired));
    assert_eq!(one.renew(stranger, "{}").await, Err(CoordinationError::Expired));
    one.release(stranger, &[sack(1)]).await.unwrap();
    one.leave(stranger).await.unwrap();
    assert_eq!(owned(one).await, []);
}

async fn members_come_and_go(setup: &CoordinationSetup) {
    let (one, two) = (setup.one(), setup.two());
    let ttl = Duration::from_mins(10);
    let about = r#"{"workers": 2, "note": "ü \" \\ %s ' ;"}"#;
    let b = one.join("node2.17", about, ttl).await.unwrap();
    let a = two.join("node1.4711", "{}", ttl).await.unwrap();
    assert_ne!(a, b);
    for coordinator in [one, two] {
        let members = coordinator.members().await.unwrap();
        let shown: Vec<_> =
            members.iter().map(|member| (member.session, &*member.name, &*member.about)).collect();
        assert_eq!(shown, [(a, "node1.4711", "{}"), (b, "node2.17", about)]);
    }
    two.renew(a, r#"{"sacks":3}"#).await.unwrap();
    assert_eq!(one.members().await.unwrap()[0].about, r#"{"sacks":3}"#);
    // Any process that knows the session may use it.
    two.leave(b).await.unwrap();
    assert_eq!(names(one).await, ["node1.4711"]);
    assert_eq!(one.renew(b, "{}").await, Err(CoordinationError::Expired));
    one.leave(b).await.unwrap();
}

async fn a_name_joins_again(setup: &CoordinationSetup) {
    let (one, two) = (setup.one(), setup.two());
    let first = setup.join(0, "node1.1").await;
    let other = setup.join(0, "node1.10").await;
    let before = token(one, first, 3).await;
    let kept = token(one, other, 4).await;
    let again = setup.join(1, "node1.1").await;
    assert_ne!(first, again);
    assert_eq!(one.acquire(first, &[sack(3)]).await, Err(CoordinationError::Expired));
    assert_eq!(one.renew(first, "{}").await, Err(CoordinationError::Expired));
    assert_eq!(owned(one).await, [(sack(4), other, kept)]);
    let after = token(two, again, 3).await;
    assert!(after > before.max(kept), "{after} does not follow {before} and {kept}");
    // Leaving the earlier session does not end the later one.
    one.leave(first).await.unwrap();
    assert_eq!(names(two).await, ["node1.1", "node1.10"]);
    assert_eq!(owned(one).await, [(sack(3), again, after), (sack(4), other, kept)]);
}

async fn one_owner_for_each_sack(setup: &CoordinationSetup) {
    let [(one, a), (two, b)] = setup.joined().await;
    let of_a = acquire(one, a, &[1, 2, 3]).await;
    let of_b = acquire(two, b, &[5, 3, 0, 2, 4]).await;
    assert_eq!(of_a.iter().flatten().count(), 3);
    assert_eq!(of_b.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false, true]);
    let expected: Vec<_> = [
        (0, b, of_b[2]),
        (1, a, of_a[0]),
        (2, a, of_a[1]),
        (3, a, of_a[2]),
        (4, b, of_b[4]),
        (5, b, of_b[0]),
    ]
    .map(|(id, session, token)| (sack(id), session, token.unwrap()))
    .into();
    assert_eq!(owned(one).await, expected);
    assert_eq!(owned(two).await, expected);
}

async fn tokens_grow_over_all_sacks(setup: &CoordinationSetup) {
    let [(one, a), (two, b)] = setup.joined().await;
    let mut last = 0;
    for round in 0..4 {
        for (coordinator, session, ids) in [(one, a, [1, 2]), (two, b, [3, 4]), (two, b, [5, round + 10])] {
            let tokens: Vec<u64> = acquire(coordinator, session, &ids).await.into_iter().flatten().collect();
            assert!(tokens.len() == 2 && tokens.iter().all(|token| *token > last), "{tokens:?} after {last}");
            last = *tokens.iter().max().unwrap();
            coordinator.release(session, &sacks(ids)).await.unwrap();
        }
    }
}

async fn owned_sacks_keep_their_tokens(setup: &CoordinationSetup) {
    let one = setup.one();
    let a = setup.join(0, "a").await;
    let first = acquire(one, a, &[7, 8]).await;
    // A sack listed twice counts once.
    let second = acquire(one, a, &[8, 9, 7, 8, 9]).await;
    assert_eq!([second[0], second[2], second[3]], [first[1], first[0], first[1]]);
    assert_eq!(second[1], second[4]);
    assert!(second[1] > first[0].max(first[1]));
    one.renew(a, "{}").await.unwrap();
    assert_eq!(acquire(setup.two(), a, &[7, 8]).await, first);
}

async fn released_sacks_are_free(setup: &CoordinationSetup) {
    let [(one, a), (two, b)] = setup.joined().await;
    let of_a = acquire(one, a, &[1, 2]).await;
    // Another's sack, and a free one.
    two.release(b, &sacks([2, 30])).await.unwrap();
    assert_eq!(acquire(two, b, &[1, 2]).await, [None, None]);
    one.release(a, &sacks([2, 2])).await.unwrap();
    assert_eq!(owned(two).await, [(sack(1), a, of_a[0].unwrap())]);
    let of_b = token(two, b, 2).await;
    assert!(of_b > of_a[1].unwrap());
    // A sack released and acquired again by the same session gets a new token, too.
    one.release(a, &[sack(1)]).await.unwrap();
    assert!(token(one, a, 1).await > of_b);
    one.release(a, &[]).await.unwrap();
}

async fn sacks_of_other_counts_are_others(setup: &CoordinationSetup) {
    let [(one, a), (two, b)] = setup.joined().await;
    let of = |count: u16, id| Sack { count: SackCount(NonZeroU16::new(count).unwrap()), id: SackId(id) };
    let all = [of(4, 3), of(8, 3), of(8, 7), of(u16::MAX, u16::MAX - 1)];
    let of_a = one.acquire(a, &all[..2]).await.unwrap();
    let of_b = two.acquire(b, &all).await.unwrap();
    assert_eq!(of_b[..2], [None, None]);
    let tokens = [of_a[0], of_a[1], of_b[2], of_b[3]].map(Option::unwrap);
    let expected: Vec<_> = all
        .into_iter()
        .zip([a, a, b, b])
        .zip(tokens)
        .map(|((sack, session), token)| (sack, session, token))
        .collect();
    assert_eq!(owned(one).await, expected);
}

async fn leaving_frees_everything(setup: &CoordinationSetup) {
    let [(one, a), (two, b)] = setup.joined().await;
    let before = acquire(one, a, &[1, 2, 3]).await;
    one.leave(a).await.unwrap();
    assert_eq!(owned(two).await, []);
    assert_eq!(one.acquire(a, &[sack(1)]).await, Err(CoordinationError::Expired));
    let after = acquire(two, b, &[1, 2, 3]).await;
    assert!(after.iter().all(|token| token > before.iter().max().unwrap()), "{before:?} {after:?}");
}

async fn what_is_not_renewed_ends(setup: &CoordinationSetup) {
    let (one, two) = (setup.one(), setup.two());
    let b = setup.join(1, "b").await;
    let (a, before) = loop {
        let joins = Instant::now();
        let a = one.join("a", "{}", setup.ttl).await.unwrap();
        match one.acquire(a, &sacks([1, 2])).await {
            // The machine stood still.
            Err(CoordinationError::Expired) if joins.elapsed() >= setup.ttl => {}
            tokens => break (a, tokens.unwrap()),
        }
    };
    let kept = token(two, b, 3).await;
    setup.outlive().await;
    assert_eq!(names(two).await, ["b"]);
    assert_eq!(owned(two).await, [(sack(3), b, kept)]);
    // A process that resumes too late: its sacks are free, but no longer its own.
    assert_eq!(one.acquire(a, &sacks([1, 4])).await, Err(CoordinationError::Expired));
    assert_eq!(one.renew(a, "{}").await, Err(CoordinationError::Expired));
    one.release(a, &sacks([1, 3])).await.unwrap();
    let after = acquire(two, b, &[1, 2, 3]).await;
    assert!(after[0].min(after[1]) > before[0].max(before[1]).max(Some(kept)));
    assert_eq!(after[2], Some(kept));
    let again = setup.join(0, "a").await;
    assert_ne!(again, a);
    assert_eq!(acquire(one, again, &[1, 2]).await, [None, None]);
    one.leave(a).await.unwrap();
    assert_eq!(names(two).await, ["a", "b"]);
}

async fn what_is_renewed_stays(setup: &CoordinationSetup) {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        let (kept, pause_max) = renewed_regularly(setup).await;
        // A machine that stands still ends the session, too.
        if kept.is_ok() || pause_max < setup.ttl {
            kept.expect("it was renewed in time");
            return;
        }
    }
    panic!("no renewal was in time");
}

/// Whether a session that is renewed eight times is kept, and the longest time without a renewal.
async fn renewed_regularly(setup: &CoordinationSetup) -> (Result<(), CoordinationError>, Duration) {
    let one = setup.one();
    let mut renewed = Instant::now();
    let mut pause_max = Duration::ZERO;
    let a = one.join("a", "{}", setup.ttl).await.unwrap();
    let kept: Result<(), CoordinationError> = async {
        let held = one.acquire(a, &[sack(1)]).await?[0];
        for _ in 0..8 {
            (setup.pass)(setup.ttl / 4).await;
            let renews = Instant::now();
            one.renew(a, "{}").await?;
            pause_max = pause_max.max(renewed.elapsed());
            renewed = renews;
        }
        let owned = owned(setup.two()).await;
        assert_eq!(one.acquire(a, &[sack(1)]).await?, [held]);
        assert_eq!(owned, [(sack(1), a, held.expect("the sack is free"))]);
        Ok(())
    }
    .await;
    pause_max = pause_max.max(renewed.elapsed());
    one.leave(a).await.unwrap();
    (kept, pause_max)
}

async fn tokens_advance(setup: &CoordinationSetup) {
    let (one, two) = (setup.one(), setup.two());
    let a = setup.join(0, "a").await;
    let first = token(one, a, 1).await;
    let far = first + 1_000_000_000_000;
    two.advance_tokens(far).await.unwrap();
    let second = token(one, a, 2).await;
    assert!(second > far, "{second} does not follow {far}");
    one.advance_tokens(first).await.unwrap();
    assert!(token(two, a, 3).await > second, "never backwards");
    assert_eq!(token(one, a, 1).await, first, "what is owned keeps its token");
}

async fn many_sacks_in_one_trip(setup: &CoordinationSetup) {
    let [(one, a), (two, b)] = setup.joined().await;
    let count = SackCount(NonZeroU16::new(8_192).unwrap());
    let all: Vec<Sack> = count.sacks().collect();
    let (low, high) = all.split_at(5_000);
    let tokens = one.acquire(a, low).await.unwrap();
    assert!(tokens.iter().all(Option::is_some));
    let rest = two.acquire(b, &all).await.unwrap();
    assert!(rest[..5_000].iter().all(Option::is_none) && rest[5_000..].iter().all(Option::is_some));
    assert!(rest.iter().flatten().min() > tokens.iter().flatten().max());
    assert_eq!(two.ownerships().await.unwrap().len(), all.len());
    one.release(a, low).await.unwrap();
    let left: Vec<Sack> = one.ownerships().await.unwrap().into_iter().map(|owned| owned.sack).collect();
    assert_eq!(left, high);
}

/// Several processes acquire all sacks at once and release some, repeatedly: no sack ever has two owners, and
/// its tokens grow in the order of ownership.
async fn many_acquirers_at_once(setup: &CoordinationSetup) {
    const ACQUIRERS: usize = 6;
    const ROUNDS: usize = 8;
    let history = parking_lot::Mutex::new(vec![(0, None); usize::from(COUNT)]);
    let acquirer = |number: usize| {
        let history = &history;
        async move {
            let coordinator = &*setup.processes[number % setup.processes.len()];
            let session = setup.join(number % setup.processes.len(), &format!("worker{number}")).await;
            for round in 0..ROUNDS {
                // Each begins at another sack, so that their orders cross.
                let ids = (0..COUNT).map(|id| (id + number as u16 * 11) % COUNT);
                let wanted = sacks(ids);
                let tokens = coordinator.acquire(session, &wanted).await.unwrap();
                let mine: Vec<(Sack, u64)> =
                    wanted.into_iter().zip(tokens).filter_map(|(sack, token)| Some((sack, token?))).collect();
                {
                    let mut history = history.lock();
                    for (sack, token) in &mine {
                        let (last, owner) = &mut history[usize::from(sack.id.0)];
                        assert!(
                            owner.is_none_or(|owner| owner == number),
                            "{sack} has two owners, {owner:?} and {number}"
                        );
                        assert!(
                            if owner.is_some() { token == last } else { token > last },
                            "{sack}: {token} after {last}"
                        );
                        (*last, *owner) = (*token, Some(number));
                    }
                }
                tokio::task::yield_now().await;
                let given: Vec<Sack> = mine
                    .iter()
                    .filter(|(sack, _)| !(usize::from(sack.id.0) + number + round).is_multiple_of(3))
                    .map(|(sack, _)| *sack)
                    .collect();
                for sack in &given {
                    history.lock()[usize::from(sack.id.0)].1 = None;
                }
                coordinator.release(session, &given).await.unwrap();
            }
            session
        }
    };
    let sessions = join_all((0..ACQUIRERS).map(acquirer)).await;
    let history = history.into_inner();
    let expected: Vec<_> = history
        .iter()
        .enumerate()
        .filter_map(|(id, (token, owner))| Some((sack(id as u16), sessions[(*owner)?], *token)))
        .collect();
    assert_eq!(owned(setup.one()).await, expected);
    let tokens: Vec<u64> = history.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), tokens.len(), "a token for each ownership");
}

/// Of concurrent joins with one name one session stays; those with different names all stay.
async fn many_join_at_once(setup: &CoordinationSetup) {
    let join = |number: usize| {
        let process = number % setup.processes.len();
        let name = if number < 5 { "same".to_owned() } else { format!("other{number}") };
        async move { setup.join(process, &name).await }
    };
    let sessions = join_all((0..10).map(join)).await;
    assert_eq!(sessions.iter().collect::<BTreeSet<_>>().len(), 10, "a session is never used again");
    assert_eq!(names(setup.one()).await, ["other5", "other6", "other7", "other8", "other9", "same"]);
    let one = setup.one();
    let mut alive = 0;
    for session in &sessions[..5] {
        alive += usize::from(one.renew(*session, "{}").await.is_ok());
    }
    assert_eq!(alive, 1);
}

async fn the_first_claim_stands<A: Arbiter>([one, two]: &[Arc<A>; 2]) {
    let name = |name: &str| name.to_owned();
    assert_eq!(one.claimed(&[name("log/1")]).await.unwrap(), [None]);
    assert_eq!(one.claimed(&[]).await.unwrap(), []);
    assert_eq!(one.claim("log/1", "a").await.unwrap(), "a");
    assert_eq!(two.claim("log/1", "b").await.unwrap(), "a");
    assert_eq!(one.claim("log/1", "a").await.unwrap(), "a");
    assert_eq!(two.claim("log/2", "").await.unwrap(), "");
    // Names differ by case, by accents and by trailing spaces.
    for other in ["LOG/1", "lög/1", "log/1 ", "log/10", "%", "' or ''='"] {
        assert_eq!(two.claim(other, other).await.unwrap(), other, "{other}");
    }
    let names = ["log/2", "log/3", "log/1", "LOG/1", "log/1 ", "log/2"].map(name);
    let expected =
        [Some(""), None, Some("a"), Some("LOG/1"), Some("log/1 "), Some("")].map(|value| value.map(name));
    assert_eq!(one.claimed(&names).await.unwrap(), expected);
    two.unclaim(&[name("log/1"), name("log/9"), name("log/1")]).await.unwrap();
    two.unclaim(&[]).await.unwrap();
    assert_eq!(one.claimed(&[name("log/1"), name("log/2")]).await.unwrap(), [None, Some(String::new())]);
    assert_eq!(two.claim("log/1", "c").await.unwrap(), "c");
}

async fn concurrent_claims_have_one_winner<A: Arbiter>(processes: &[Arc<A>; 2]) {
    for round in 0..20 {
        let name = format!("log/{round}");
        let claim = |number: usize| {
            let (name, arbiter) = (&name, &processes[number % 2]);
            async move { arbiter.claim(name, &format!("value {number}")).await.unwrap() }
        };
        let answers: BTreeSet<String> = join_all((0..8).map(claim)).await.into_iter().collect();
        assert_eq!(answers.len(), 1, "{answers:?}");
        let standing = processes[0].claimed(&[name]).await.unwrap().remove(0);
        assert_eq!(standing.as_ref(), answers.first());
    }
}

async fn claims_are_seen_at_once<A: Arbiter>([one, two]: &[Arc<A>; 2]) {
    let names: Vec<String> = (0..500).map(|number| format!("object/{number}")).collect();
    for (number, name) in names.iter().enumerate().step_by(3) {
        one.claim(name, &number.to_string()).await.unwrap();
        assert_eq!(two.claimed(std::slice::from_ref(name)).await.unwrap(), [Some(number.to_string())]);
    }
    let claimed = two.claimed(&names).await.unwrap();
    let expected: Vec<_> =
        (0..500_u32).map(|number| number.is_multiple_of(3).then(|| number.to_string())).collect();
    assert_eq!(claimed, expected);
    two.unclaim(&names).await.unwrap();
    assert!(one.claimed(&names).await.unwrap().iter().all(Option::is_none));
}
