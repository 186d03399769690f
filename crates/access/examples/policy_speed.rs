//! Benchmark of policy checks: `cargo run --release -p gnudi-access --example policy_speed`.
//!
//! Each line is the best of several rounds, on one core, with Gnocchi's rules.

use std::{hint::black_box, time::Instant};

use gnudi_access::{Caller, Policy, Rule, Target};
use gnudi_model::{Metric, MetricId, Resource};
use uuid::Uuid;

const CHECKS: u32 = 200_000;
const ROUNDS: usize = 20;

fn main() {
    let policy = Policy::default();
    let creator =
        caller("8d5e957f297893487bd98fa830fa6413", "5f705af98f5b4e3bb36bd5bbcbc5b2d1", &["member", "reader"]);
    let owner =
        caller("1b2e957f297893487bd98fa830fa6413", "77705af98f5b4e3bb36bd5bbcbc5b2d1", &["member", "reader"]);
    let stranger =
        caller("2c2e957f297893487bd98fa830fa6413", "99905af98f5b4e3bb36bd5bbcbc5b2d1", &["member"]);
    let service =
        caller("3d2e957f297893487bd98fa830fa6413", "00005af98f5b4e3bb36bd5bbcbc5b2d1", &["service"]);
    let metric = metric(&creator.user);
    let resource = resource(&service.user, owner.project_id.as_deref());
    let alone = Target::Metric(&metric, None);
    let of_resource = Target::Metric(&metric, Some(&resource));
    for (name, rule, caller, target, expected) in [
        ("anybody's: a list of archive policies", Rule::ListArchivePolicy, &stranger, Target::Nothing, true),
        ("a service posts measures", Rule::PostMeasures, &service, alone, true),
        ("the creator posts measures", Rule::PostMeasures, &creator, alone, true),
        ("another project posts measures", Rule::PostMeasures, &stranger, alone, false),
        ("the creator reads measures", Rule::GetMeasures, &creator, alone, true),
        ("the resource's project reads measures", Rule::GetMeasures, &owner, of_resource, true),
        ("the project sees its resource", Rule::GetResource, &owner, Target::Resource(&resource), true),
        (
            "another project sees the resource",
            Rule::GetResource,
            &stranger,
            Target::Resource(&resource),
            false,
        ),
    ] {
        let took = best(|| {
            assert_eq!(black_box(&policy).allows(rule, black_box(caller), black_box(target)), expected);
        });
        println!("{name:40} {took:6.1} ns");
    }
    let took =
        best(|| assert!(black_box(&policy).resources_seen(Rule::ListResource, &creator, "generic").is_ok()));
    println!("{:40} {took:6.1} ns", "what a project sees of the resources");
}

fn caller(user: &str, project: &str, roles: &[&str]) -> Caller {
    Caller {
        user: format!("{user}:{project}"),
        user_id: Some(user.to_owned()),
        project_id: Some(project.to_owned()),
        domain_id: None,
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
    }
}

fn metric(creator: &str) -> Metric {
    Metric {
        creator: creator.into(),
        name: Some("cpu".into()),
        archive_policy_name: "medium".into(),
        resource_id: Some(Uuid::from_u128(2)),
        ..Metric::new(MetricId(Uuid::from_u128(1)))
    }
}

fn resource(creator: &str, project: Option<&str>) -> Resource {
    Resource {
        creator: creator.into(),
        project_id: project.map(Into::into),
        ..Resource::new(Uuid::from_u128(2), "instance")
    }
}

/// Nanoseconds per check in the best round.
fn best(check: impl Fn()) -> f64 {
    let round = || {
        let start = Instant::now();
        (0..CHECKS).for_each(|_| check());
        start.elapsed().as_nanos() as f64 / f64::from(CHECKS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
