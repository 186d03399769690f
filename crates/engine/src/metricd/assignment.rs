//! Which units a process should own, and which to acquire and release. Pure: members and ownerships are
//! arguments.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gnudi_drivers::coordination::{Ownership, Session};
use gnudi_model::{Numbering, Sack, SackCount};

use super::ring::Ring;

/// The assignment by the ring, cached until its input changes.
#[derive(Debug, Default)]
pub struct Assignment {
    key: Option<(Vec<String>, SackCount)>,
    own: BTreeSet<Sack>,
}

impl Assignment {
    /// The units that the ring assigns to the process: none if it is not among the workers.
    pub fn wanted(&mut self, name: &str, workers: Vec<String>, numbering: Numbering) -> &BTreeSet<Sack> {
        let key = Some((workers, numbering.units()));
        if self.key != key {
            self.key = key;
            let (workers, units) = self.key.as_ref().expect("set above");
            self.own = match workers.iter().position(|worker| worker == name) {
                Some(own) => {
                    let ring = Ring::new(workers, *units);
                    units.sacks().filter(|sack| ring.owner(sack.id) == own).collect()
                }
                None => BTreeSet::new(),
            };
        }
        &self.own
    }
}

/// Units that are leased but no longer wanted. Includes all of another count: those are never
/// wanted after a renumbering.
pub fn surplus(leased: &BTreeSet<Sack>, wanted: &BTreeSet<Sack>) -> Vec<Sack> {
    leased.difference(wanted).copied().collect()
}

/// Which of the missing units may be acquired: not those that share metrics with another's unit of an older
/// or newer count. Its owner releases it after learning of the renumbering; the fence would stop it, but
/// until then it continues.
pub fn free(missing: &[Sack], owned: &[Ownership], own: Session) -> Vec<Sack> {
    let Some(units) = missing.first().map(|sack| sack.count) else { return Vec::new() };
    let (mut exact, mut others) = (HashSet::new(), BTreeMap::<u16, HashSet<u16>>::new());
    for Ownership { sack, session, .. } in owned {
        if sack.count == units {
            if *session != own {
                exact.insert(*sack);
            }
        } else {
            let common = sack.count.common(units);
            others.entry(common).or_default().insert(sack.id.0 % common);
        }
    }
    let taken = |sack: &Sack| {
        exact.contains(sack) || others.iter().any(|(common, ids)| ids.contains(&(sack.id.0 % common)))
    };
    missing.iter().filter(|sack| !taken(sack)).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use gnudi_model::SackId;
    use proptest::prelude::*;

    use super::*;

    fn count(count: u16) -> SackCount {
        SackCount(NonZeroU16::new(count).unwrap())
    }

    fn sack(sacks: u16, id: u16) -> Sack {
        Sack { count: count(sacks), id: SackId(id % sacks) }
    }

    #[test]
    fn all_units_are_wanted_by_one_worker_each() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        for numbering in [Numbering::settled(count(12)), Numbering { count: count(24), draining: true }] {
            let mut wanted = BTreeSet::new();
            for name in &names {
                let mut assignment = Assignment::default();
                let own = assignment.wanted(name, names.clone(), numbering).clone();
                assert!(own.is_disjoint(&wanted));
                wanted.extend(own);
            }
            assert_eq!(wanted, count(12).sacks().collect::<BTreeSet<_>>());
            assert!(Assignment::default().wanted("d", names.clone(), numbering).is_empty());
        }
    }

    #[test]
    fn a_renumbered_unit_is_surplus() {
        let leased = BTreeSet::from([sack(4, 1), sack(4, 2), sack(8, 2)]);
        assert_eq!(surplus(&leased, &BTreeSet::from([sack(4, 1)])), [sack(4, 2), sack(8, 2)]);
    }

    proptest! {
        /// A unit is free if and only if nothing that intersects it is owned, except the same unit by this
        /// session.
        #[test]
        fn what_is_free_intersects_nothing(
            units in 1_u16..9,
            owned in proptest::collection::vec((prop_oneof![1_u16..9, Just(16), Just(32)], 0_u16..32, 1_u64..3), 0..12),
        ) {
            let owned: Vec<Ownership> = owned
                .into_iter()
                .map(|(sacks, id, session)| Ownership { sack: sack(sacks, id), session: Session(session), token: 1 })
                .collect();
            let missing: Vec<Sack> = count(units).sacks().collect();
            let free = free(&missing, &owned, Session(1));
            for unit in missing {
                let taken = owned.iter().any(|other| {
                    other.sack.intersects(unit) && !(other.sack == unit && other.session == Session(1))
                });
                prop_assert_eq!(free.contains(&unit), !taken, "{}", unit);
            }
        }
    }
}
