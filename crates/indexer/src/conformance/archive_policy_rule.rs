//! Archive policy rules.

use gnudi_model::ArchivePolicyRule;

use super::{create_low, policy};
use crate::{Indexer, IndexerError};

fn rule(name: &str, pattern: &str, policy: &str) -> ArchivePolicyRule {
    ArchivePolicyRule::new(name, pattern, policy)
}

pub(super) async fn is_kept_whole(indexer: &dyn Indexer) {
    create_low(indexer).await;
    assert_eq!(indexer.archive_policy_rule("odd").await, Ok(None));
    let odd = rule("ó'dd; \u{0}", "[!a]\\%_?*", "low");
    indexer.create_archive_policy_rule(odd.clone()).await.unwrap();
    assert_eq!(indexer.archive_policy_rule(&odd.name).await, Ok(Some(odd.clone())));
    assert_eq!(indexer.archive_policy_rules().await, Ok(vec![odd.clone()]));
    assert_eq!(indexer.delete_archive_policy_rule(&odd.name).await, Ok(()));
    assert_eq!(indexer.archive_policy_rule(&odd.name).await, Ok(None));
    assert_eq!(indexer.archive_policy_rules().await, Ok(vec![]));
}

pub(super) async fn refusals(indexer: &dyn Indexer) {
    create_low(indexer).await;
    assert_eq!(
        indexer.create_archive_policy_rule(rule("a", "*", "none")).await,
        Err(IndexerError::NoSuchArchivePolicy("none".to_owned()))
    );
    indexer.create_archive_policy_rule(rule("a", "*", "low")).await.unwrap();
    let taken = Err(IndexerError::ArchivePolicyRuleAlreadyExists("a".to_owned()));
    assert_eq!(indexer.create_archive_policy_rule(rule("a", "x", "low")).await, taken);
    assert_eq!(indexer.create_archive_policy_rule(rule("a", "x", "none")).await, taken);
    assert_eq!(indexer.archive_policy_rules().await, Ok(vec![rule("a", "*", "low")]));
    let unknown = IndexerError::NoSuchArchivePolicyRule("b".to_owned());
    assert_eq!(indexer.delete_archive_policy_rule("b").await, Err(unknown.clone()));
    assert_eq!(indexer.rename_archive_policy_rule("b", "c").await, Err(unknown.clone()));
    assert_eq!(indexer.rename_archive_policy_rule("b", "a").await, Err(unknown));
}

pub(super) async fn renaming(indexer: &dyn Indexer) {
    create_low(indexer).await;
    indexer.create_archive_policy_rule(rule("a", "x*", "low")).await.unwrap();
    indexer.create_archive_policy_rule(rule("b", "y*", "low")).await.unwrap();
    let refused = indexer.rename_archive_policy_rule("a", "b").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Archive policy rule a does not support change: Archive policy rule b already exists."
    );
    assert_eq!(indexer.rename_archive_policy_rule("a", "a").await, Ok(rule("a", "x*", "low")));
    assert_eq!(indexer.rename_archive_policy_rule("a", "c").await, Ok(rule("c", "x*", "low")));
    assert_eq!(indexer.archive_policy_rule("a").await, Ok(None));
    assert_eq!(indexer.archive_policy_rule("c").await, Ok(Some(rule("c", "x*", "low"))));
    assert_eq!(
        indexer.archive_policy_rules().await,
        Ok(vec![rule("b", "y*", "low"), rule("c", "x*", "low")])
    );
}

pub(super) async fn are_tried_in_order(indexer: &dyn Indexer) {
    for name in ["low", "medium", "high"] {
        indexer.create_archive_policy(policy(name, &[60])).await.unwrap();
    }
    let nothing = indexer.archive_policy_name_for_metric("cpu").await.unwrap_err();
    assert_eq!(nothing.to_string(), "No Archive policy rule found for metric cpu");
    // Pattern descending, then name ascending.
    let ordered = [
        rule("2", "disk.*", "medium"),
        rule("4", "disk.*", "high"),
        rule("3", "disk*", "low"),
        rule("1", "cpu", "high"),
        rule("5", "*.rate", "medium"),
    ];
    for index in [3, 1, 4, 0, 2] {
        indexer.create_archive_policy_rule(ordered[index].clone()).await.unwrap();
    }
    assert_eq!(indexer.archive_policy_rules().await.unwrap(), ordered);
    for (metric, policy) in [
        ("cpu", Some("high")),
        ("disk.a", Some("medium")),
        ("disks", Some("low")),
        ("a.rate", Some("medium")),
    ] {
        assert_eq!(indexer.archive_policy_name_for_metric(metric).await.ok().as_deref(), policy);
    }
    for metric in ["CPU", "cpu2", ""] {
        assert_eq!(
            indexer.archive_policy_name_for_metric(metric).await,
            Err(IndexerError::NoArchivePolicyRuleMatch(metric.to_owned()))
        );
    }
    // A rename changes the order of rules with the same pattern.
    indexer.rename_archive_policy_rule("2", "6").await.unwrap();
    assert_eq!(indexer.archive_policy_name_for_metric("disk.a").await.unwrap(), "high");
    indexer.delete_archive_policy_rule("4").await.unwrap();
    assert_eq!(indexer.archive_policy_name_for_metric("disk.a").await.unwrap(), "medium");
}
