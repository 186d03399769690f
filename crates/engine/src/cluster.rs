//! Members, owners of sacks and their progress, for `gnudi status`.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use gnudi_drivers::coordination::{Member, Ownership, Session};
use gnudi_model::{Sack, SackId};
use serde::{Deserialize, Serialize};

use crate::{Engine, ProcessStatus, Result, process_status};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The sack count for new measures.
    pub sacks: u16,
    /// Progress of a split that drains.
    pub split: Option<SplitProgress>,
    /// By name. Empty if a single process owns the stores.
    pub processes: Vec<Process>,
    /// By number. Empty if a single process owns the stores.
    pub units: Vec<UnitStatus>,
    pub backlog_measures: u64,
    pub backlog_bytes: u64,
    /// Measures set aside by the live processes since their starts because folding them panicked.
    #[serde(default)]
    pub measures_set_aside: u64,
    /// Damaged places that the live processes found in the stores and the index since their starts.
    #[serde(default)]
    pub damaged: u64,
    /// The number of metrics, if requested: the index counts them one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<u64>,
}

/// How many of the sacks before the split are drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitProgress {
    pub old_sacks: usize,
    pub drained: usize,
}

/// A member, with its own information.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub name: String,
    #[serde(flatten)]
    pub status: ProcessStatus,
    /// Number of its leases, according to the coordinator.
    pub leases: usize,
}

/// A unit of processing: a sack, or during a split's drain an old sack with its successors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnitStatus {
    pub id: u16,
    /// Name of the owner.
    pub owner: Option<String>,
    /// Of the lease; 0 without one.
    pub token: u64,
    /// Whether nothing waits in it, and no pass runs.
    pub idle: bool,
}

impl ClusterStatus {
    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("it has nothing that JSON has not")
    }

    /// Parses the output of [`ClusterStatus::to_json`], of any version.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

impl Engine {
    /// Like [`Engine::cluster`], with the number of metrics.
    pub async fn cluster_with_metrics(&self) -> Result<ClusterStatus> {
        let status = self.cluster().await?;
        Ok(ClusterStatus { metrics: Some(self.indexer.count_metrics(None).await?), ..status })
    }

    /// The names of all processes with workers, sorted.
    pub async fn processors(&self) -> Result<Vec<String>> {
        let Some(coordinator) = &self.coordinator else {
            return Ok(self.workers().map(str::to_owned).into_iter().collect());
        };
        Ok(process_status::workers(coordinator.members().await?))
    }

    /// Queries the coordinator and the incoming store, in a few calls however many sacks there are.
    pub async fn cluster(&self) -> Result<ClusterStatus> {
        let numbering = self.incoming.numbering();
        let (members, owned) = match &self.coordinator {
            Some(coordinator) => (coordinator.members().await?, coordinator.ownerships().await?),
            None => Default::default(),
        };
        let units = numbering.units();
        let sacks: Vec<Sack> = units.iter().flat_map(|unit| numbering.sacks_of_unit(unit)).collect();
        let mut idle: BTreeMap<SackId, bool> = units.iter().map(|unit| (unit, true)).collect();
        let mut drained = 0;
        for (sack, positions) in sacks.iter().zip(self.incoming.positions(&sacks).await?) {
            *idle.get_mut(&numbering.unit_of(*sack)).expect("all units are in it") &= positions.is_idle();
            drained += usize::from(sack.count == units && positions.is_idle());
        }
        let backlog = self.backlog().await?;
        let old_sacks = usize::from(units.get());
        let processes = processes(&members, &owned);
        let (measures_set_aside, damaged) = if self.coordinator.is_some() {
            let statuses = processes.iter().map(|process| &process.status);
            statuses.fold((0, 0), |sum, status| (sum.0 + status.measures_set_aside, sum.1 + status.damaged))
        } else {
            (self.figures().measures_set_aside.load(Relaxed), self.damaged())
        };
        Ok(ClusterStatus {
            sacks: numbering.count.get(),
            split: numbering.draining.then_some(SplitProgress { old_sacks, drained }),
            processes,
            units: if self.coordinator.is_some() {
                unit_statuses(&idle, &members, &owned, units)
            } else {
                Vec::new()
            },
            backlog_measures: backlog.measures,
            backlog_bytes: backlog.bytes,
            measures_set_aside,
            damaged,
            metrics: None,
        })
    }
}

fn processes(members: &[Member], owned: &[Ownership]) -> Vec<Process> {
    let leases = |session| owned.iter().filter(|owned| owned.session == session).count();
    let process = |member: &Member| Process {
        name: member.name.clone(),
        status: ProcessStatus::read(&member.about),
        leases: leases(member.session),
    };
    members.iter().map(process).collect()
}

fn unit_statuses(
    idle: &BTreeMap<SackId, bool>,
    members: &[Member],
    owned: &[Ownership],
    count: gnudi_model::SackCount,
) -> Vec<UnitStatus> {
    let names: BTreeMap<Session, &str> =
        members.iter().map(|member| (member.session, member.name.as_str())).collect();
    let owned: BTreeMap<Sack, &Ownership> = owned.iter().map(|owned| (owned.sack, owned)).collect();
    let unit = |(id, idle): (&SackId, &bool)| {
        let owned = owned.get(&Sack { count, id: *id });
        let owner = owned.and_then(|owned| names.get(&owned.session)).map(|name| (*name).to_owned());
        UnitStatus { id: id.0, owner, token: owned.map_or(0, |owned| owned.token), idle: *idle }
    };
    idle.iter().map(unit).collect()
}
