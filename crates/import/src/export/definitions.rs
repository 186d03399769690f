//! Exports archive policies, their rules, and resource types: new and changed ones before their users, deleted ones
//! after them.
//!
//! Metrics of Gnocchi need a named policy. A metric's own definition becomes a policy whose name follows from the definition:
//! metrics with the same definition share it, and later exports find it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gnudi_indexer::Indexer;
use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, ResourceType, Text, resource_type::GENERIC,
};
use serde_json::{Map, Value, json};

use super::{
    Export, ExportError, Report,
    expected::{ExpectedType, of_policy, of_rule, of_type},
    line::Line,
    resources::{shown_for_null, value_of},
};
use crate::{definitions::have_same_granularities, index::SourceType};

/// A resource type on both sides, including the generic one.
pub(super) struct Types {
    /// The type in Gnocchi's index, unless the file of earlier runs deletes it.
    pub gnocchi: Option<SourceType>,
    /// Gnocchi's attributes once that file is posted; `None` without the type.
    expected: Option<BTreeMap<Text, Attribute>>,
    /// Attributes that the file removes or creates.
    replaced: BTreeSet<Text>,
    pub gnudi: Option<Arc<ResourceType>>,
    /// Fill values of attributes that became required: what Gnocchi's resources without a value get.
    pub fills: BTreeMap<Text, AttributeValue>,
}

impl Types {
    pub fn new(theirs: Option<ExpectedType>, gnudi: Option<Arc<ResourceType>>) -> Self {
        let fills = BTreeMap::new();
        match theirs {
            Some(ExpectedType { stored, attributes, replaced }) => {
                Types { gnocchi: stored, expected: Some(attributes), replaced, gnudi, fills }
            }
            None => Types { gnocchi: None, expected: None, replaced: BTreeSet::new(), gnudi, fills },
        }
    }

    /// The attribute of this name in Gnocchi's index, if its values stay and gnudi's has the same kind; its bounds may
    /// differ. An attribute of another kind is a new one.
    pub fn kept(&self, name: &str) -> Option<&Attribute> {
        let stored = self.gnocchi.as_ref().filter(|_| !self.replaced.contains(name))?;
        self.same_kind(&stored.resource_type.attributes, name)
    }

    /// Gnocchi's attribute of this name once the file of earlier runs is posted, if gnudi's has the same kind.
    pub fn expected(&self, name: &str) -> Option<&Attribute> {
        self.same_kind(self.expected.as_ref()?, name)
    }

    /// Whether Gnocchi accepts the value. The type's bounds may have been narrowed since it was stored, or widened since the
    /// type was listed.
    pub fn accepts(&self, name: &str, value: &AttributeValue) -> bool {
        let attribute = self.gnudi.as_ref().and_then(|ours| ours.attributes.get(name));
        attribute.is_some_and(|attribute| fits(attribute.kind, value))
    }

    fn same_kind<'a>(&self, theirs: &'a BTreeMap<Text, Attribute>, name: &str) -> Option<&'a Attribute> {
        let theirs = theirs.get(name)?;
        let ours = self.gnudi.as_ref()?.attributes.get(name)?;
        (theirs.kind.name() == ours.kind.name()).then_some(theirs)
    }
}

/// Exports policies, rules and types that Gnocchi lacks or has differently; returns all types.
pub(super) async fn write_new(export: &mut Export<'_>) -> Result<Vec<Types>, ExportError> {
    write_policies(export).await?;
    write_rules(export).await?;
    let mut theirs = export.expected.types.clone();
    let mut types = Vec::new();
    for ours in export.gnudi.resource_types().await? {
        let mut of = Types::new(theirs.remove(&of_type(&ours.name)), Some(ours.clone()));
        if of.expected.is_none() {
            let attributes: Map<String, Value> = ours
                .attributes
                .iter()
                .map(|(name, attribute)| (name.to_string(), attribute_of(attribute)))
                .collect();
            let body = json!({"name": &*ours.name, "attributes": attributes});
            export.change(&Line::request("POST", "/v1/resource_type", Some(body)))?;
        } else if ours.name != GENERIC {
            write_attributes(export, &ours, &mut of).await?;
        }
        types.push(of);
    }
    types.extend(theirs.into_values().map(|gone| Types::new(Some(gone), None)));
    Ok(types)
}

async fn write_policies(export: &mut Export<'_>) -> Result<(), ExportError> {
    for ours in export.gnudi.archive_policies().await? {
        for line in policy_lines(&ours, &export.expected.policies, &mut export.report) {
            export.change(&line)?;
        }
        export.known.policies.insert(ours.name.clone());
    }
    Ok(())
}

/// The requests that create or change a policy in Gnocchi; none if Gnocchi has the same one. Adds to `report` what
/// Gnocchi's policies do not support.
fn policy_lines(
    policy: &ArchivePolicy,
    theirs: &BTreeMap<String, ArchivePolicy>,
    report: &mut Report,
) -> Vec<Line> {
    let ours = of_gnocchi(policy);
    let of_policy = of_policy(&ours.name);
    let known = theirs.get(&of_policy);
    if known == Some(&ours) {
        return Vec::new();
    }
    let lost = lost(policy);
    if !lost.is_empty() {
        report.skipped.push(format!("archive policy {}: Gnocchi has no {}", ours.name, lost.join(", ")));
    }
    let mut lines = Vec::new();
    if let Some(theirs) = known {
        if have_same_granularities(theirs, &ours) {
            let body = json!({"definition": definition_of(&ours), "back_window": ours.back_window});
            lines.push(Line::request("PATCH", of_policy.clone(), Some(body)));
            if theirs.aggregation_methods == ours.aggregation_methods {
                return lines;
            }
        }
        // Gnocchi refuses to delete it then, which is no error while posting.
        report.skipped.push(format!(
            "archive policy {}: its methods or granularities were changed; Gnocchi keeps its own if metrics use it there",
            ours.name
        ));
        lines.push(Line::request("DELETE", of_policy, None));
    }
    let methods: Vec<String> = ours.aggregation_methods.iter().map(ToString::to_string).collect();
    let body = json!({
        "name": ours.name,
        "back_window": ours.back_window,
        "definition": definition_of(&ours),
        "aggregation_methods": methods,
    });
    lines.push(Line::request("POST", "/v1/archive_policy", Some(body)));
    lines
}

/// The policies that stand for definitions of metrics, each written before its first metric.
pub(super) struct Definitions {
    /// Gnocchi's policies, by their paths.
    theirs: BTreeMap<String, ArchivePolicy>,
    written: BTreeSet<String>,
}

impl Definitions {
    pub fn new(theirs: BTreeMap<String, ArchivePolicy>) -> Self {
        Self { theirs, written: BTreeSet::new() }
    }

    /// The requests that create or change the policy `name` in Gnocchi. None if it does not stand for a definition, or
    /// if an earlier call had this name.
    pub async fn lines(
        &mut self,
        gnudi: &dyn Indexer,
        name: &str,
        report: &mut Report,
    ) -> Result<Vec<Line>, ExportError> {
        if !ArchivePolicy::is_definition_name(name) || !self.written.insert(name.to_owned()) {
            return Ok(Vec::new());
        }
        // If the policy is gone, so are its metrics.
        let Some(policy) = gnudi.archive_policy(name).await? else { return Ok(Vec::new()) };
        Ok(policy_lines(&policy, &self.theirs, report))
    }
}

/// A policy's name in Gnocchi. One that stands for a definition is called `definition-UUID` there.
pub(super) fn name_in_gnocchi(name: &str) -> String {
    if ArchivePolicy::is_definition_name(name) { name.replacen(':', "-", 1) } else { name.to_owned() }
}

/// The policy of gnudi that has this name in Gnocchi.
async fn in_gnudi(gnudi: &dyn Indexer, name: &str) -> Result<Option<Arc<ArchivePolicy>>, ExportError> {
    let definition = name.replacen('-', ":", 1);
    if ArchivePolicy::is_definition_name(&definition)
        && let Some(policy) = gnudi.archive_policy(&definition).await?
    {
        return Ok(Some(policy));
    }
    Ok(gnudi.archive_policy(name).await?)
}

/// What the policy has that Gnocchi does not support.
fn lost(policy: &ArchivePolicy) -> Vec<String> {
    let raw = policy.raw_timespan.map(|_| "raw points".to_owned());
    let late = policy.recomputes_late.then(|| "\"late\": \"recompute\"".to_owned());
    let methods = policy.aggregation_methods.iter().filter(|method| method.is_counter());
    raw.into_iter().chain(late).chain(methods.map(|method| format!("method {method}"))).collect()
}

/// A policy without extensions. If no method is left, it gets Gnocchi's default ones.
fn of_gnocchi(policy: &ArchivePolicy) -> ArchivePolicy {
    let methods = policy.aggregation_methods.iter().copied();
    let mut aggregation_methods: BTreeSet<_> = methods.filter(|method| !method.is_counter()).collect();
    if aggregation_methods.is_empty() {
        aggregation_methods = ArchivePolicy::default_methods();
    }
    let name = name_in_gnocchi(&policy.name);
    ArchivePolicy { name, raw_timespan: None, recomputes_late: false, aggregation_methods, ..policy.clone() }
}

fn definition_of(policy: &ArchivePolicy) -> Value {
    let item = |item: &gnudi_model::ArchivePolicyItem| {
        let mut of_item = json!({"granularity": item.granularity.as_secs_f64()});
        if let Some(points) = item.points {
            of_item["points"] = points.into();
        }
        of_item
    };
    policy.definition.iter().map(item).collect()
}

async fn write_rules(export: &mut Export<'_>) -> Result<(), ExportError> {
    for ours in export.gnudi.archive_policy_rules().await? {
        let of_rule = of_rule(&ours.name);
        let same_name = export.expected.rules.get(&of_rule);
        if same_name == Some(&ours) || !export.known.policies.contains(&ours.archive_policy_name) {
            continue;
        }
        if same_name.is_some() {
            export.change(&Line::request("DELETE", of_rule, None))?;
        }
        let body = json!({
            "name": ours.name,
            "metric_pattern": ours.metric_pattern,
            "archive_policy_name": ours.archive_policy_name,
        });
        export.change(&Line::request("POST", "/v1/archive_policy_rule", Some(body)))?;
    }
    Ok(())
}

/// Changes the attributes of Gnocchi's type to those of gnudi's, and sets `of.fills`.
async fn write_attributes(
    export: &mut Export<'_>,
    ours: &ResourceType,
    of: &mut Types,
) -> Result<(), ExportError> {
    let of_type = of_type(&ours.name);
    // One request each: an attribute that is already removed is rejected, and must not fail the others.
    for name in of.expected.iter().flat_map(BTreeMap::keys).filter(|name| of.expected(name).is_none()) {
        let body = json!([{"op": "remove", "path": pointer(name)}]);
        export.change(&Line::request("PATCH", of_type.clone(), Some(body)))?;
    }
    // Also those that an earlier run's lines add: the index has no values of them yet.
    let filled = |(name, attribute): &(&Text, &Attribute)| {
        attribute.required && of.kept(name).is_none_or(|theirs| !theirs.required)
    };
    let fills = ours.attributes.iter().filter(filled).map(|(name, _)| name.clone()).collect();
    let fills = shown_for_null(export, of, fills).await?;
    let mut operations = Vec::new();
    for (name, attribute) in &ours.attributes {
        if of.expected(name) == Some(attribute) {
            continue;
        }
        let mut value = attribute_of(attribute);
        if attribute.required {
            let fill = fills.get(name).cloned().unwrap_or_else(|| neutral(attribute.kind));
            value["options"] = json!({"fill": value_of(&fill)});
        }
        operations.push(json!({"op": "add", "path": pointer(name), "value": value}));
    }
    of.fills = fills;
    if !operations.is_empty() {
        export.change(&Line::request("PATCH", of_type, Some(operations.into())))?;
    }
    Ok(())
}

/// Whether a value is of a kind, and within its bounds. A number must be finite, since JSON has no others.
pub(super) fn fits(kind: AttributeKind, value: &AttributeValue) -> bool {
    match (kind, value) {
        (AttributeKind::String { min_length, max_length }, AttributeValue::String(text)) => {
            (min_length as usize..=max_length as usize).contains(&text.as_str().chars().count())
        }
        (AttributeKind::Number { min, max }, AttributeValue::Number(number)) => {
            number.is_finite() && min.is_none_or(|min| min <= *number) && max.is_none_or(|max| *number <= max)
        }
        (AttributeKind::Uuid, AttributeValue::Uuid(_))
        | (AttributeKind::Bool, AttributeValue::Bool(_))
        | (AttributeKind::Datetime, AttributeValue::Datetime(_)) => true,
        _ => false,
    }
}

/// A valid value, for attributes that no resource lacks: Gnocchi demands one for each required attribute.
pub(super) fn neutral(kind: AttributeKind) -> AttributeValue {
    match kind {
        AttributeKind::String { min_length, .. } => {
            AttributeValue::String(" ".repeat(min_length as usize).as_str().into())
        }
        AttributeKind::Uuid => AttributeValue::Uuid(uuid::Uuid::nil()),
        AttributeKind::Number { min, max } => {
            AttributeValue::Number(0.0_f64.max(min.unwrap_or(0.0)).min(max.unwrap_or(f64::MAX)))
        }
        AttributeKind::Bool => AttributeValue::Bool(false),
        AttributeKind::Datetime => AttributeValue::Datetime(gnudi_model::Timestamp::EPOCH),
    }
}

fn attribute_of(attribute: &Attribute) -> Value {
    let mut value = json!({"type": attribute.kind.name(), "required": attribute.required});
    match attribute.kind {
        AttributeKind::String { min_length, max_length } => {
            value["min_length"] = min_length.into();
            value["max_length"] = max_length.into();
        }
        AttributeKind::Number { min, max } => {
            for (name, bound) in [("min", min), ("max", max)] {
                if let Some(bound) = bound {
                    value[name] = bound.into();
                }
            }
        }
        AttributeKind::Uuid | AttributeKind::Bool | AttributeKind::Datetime => {}
    }
    value
}

/// The JSON pointer to an attribute (RFC 6901).
fn pointer(attribute: &str) -> String {
    format!("/attributes/{}", attribute.replace('~', "~0").replace('/', "~1"))
}

/// Deletes types, rules and policies that are gone in gnudi.
pub(super) async fn write_deleted(export: &mut Export<'_>) -> Result<(), ExportError> {
    let types = export.gnudi.resource_types().await?;
    let types: BTreeSet<String> = types.iter().map(|ours| of_type(&ours.name)).collect();
    let rules = export.gnudi.archive_policy_rules().await?;
    let rules: BTreeSet<String> = rules.iter().map(|ours| of_rule(&ours.name)).collect();
    let theirs = &export.expected;
    let types = theirs.types.keys().filter(|path| !types.contains(*path));
    let rules = theirs.rules.keys().filter(|path| !rules.contains(*path));
    let mut gone: Vec<String> = types.chain(rules).cloned().collect();
    for (path, theirs) in &theirs.policies {
        if in_gnudi(export.gnudi, &theirs.name).await?.is_none() {
            gone.push(path.clone());
        }
    }
    for path in gone {
        export.change(&Line::request("DELETE", path, None))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_written_as_gnocchi_takes_them() {
        let of = |kind| attribute_of(&Attribute { kind, required: false, fill: None }).to_string();
        assert_eq!(
            of(AttributeKind::String { min_length: 0, max_length: 40 }),
            r#"{"type":"string","required":false,"min_length":0,"max_length":40}"#
        );
        assert_eq!(
            of(AttributeKind::Number { min: Some(-5.0), max: None }),
            r#"{"type":"number","required":false,"min":-5.0}"#
        );
        assert_eq!(of(AttributeKind::Bool), r#"{"type":"bool","required":false}"#);
        assert_eq!(pointer("a/b~"), "/attributes/a~1b~0");
    }

    #[test]
    fn policies_lose_their_extensions() {
        let mut policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).pop().unwrap();
        policy.recomputes_late = true;
        policy.aggregation_methods = ["last", "increase"].map(|name| name.parse().unwrap()).into();
        let exported = of_gnocchi(&policy);
        assert_eq!(exported.aggregation_methods, ["last".parse().unwrap()].into());
        assert_eq!((exported.raw_timespan, exported.recomputes_late), (None, false));
        assert_eq!(lost(&policy), ["raw points", "\"late\": \"recompute\"", "method increase"]);
        assert!(lost(&exported).is_empty());
        policy.aggregation_methods = ["rate_reset".parse().unwrap()].into();
        assert_eq!(of_gnocchi(&policy).aggregation_methods, ArchivePolicy::default_methods());
    }

    fn by_path(policy: ArchivePolicy) -> BTreeMap<String, ArchivePolicy> {
        BTreeMap::from([(of_policy(&policy.name), policy)])
    }

    #[test]
    fn definitions_get_names_of_policies() {
        let definition = ArchivePolicy::definition_name(uuid::Uuid::from_u128(5));
        let name = name_in_gnocchi(&definition);
        assert_eq!(name, "definition-00000000-0000-0000-0000-000000000005");
        assert!(!ArchivePolicy::is_definition_name(&name));
        // Other names stay as they are.
        assert_eq!(name_in_gnocchi("definition:5"), "definition:5");
        let policy = ArchivePolicy {
            name: definition,
            ..ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(1)
        };
        let mut report = Report::default();
        let lines = policy_lines(&policy, &BTreeMap::new(), &mut report);
        let [line] = &lines[..] else { panic!("one request") };
        assert!(line.body.as_ref().unwrap().get().contains(&name));
        assert!(policy_lines(&policy, &by_path(of_gnocchi(&policy)), &mut report).is_empty());
        assert!(report.skipped.is_empty());
        let raw = ArchivePolicy { raw_timespan: Some(gnudi_model::Timespan::from_secs(60)), ..policy };
        policy_lines(&raw, &BTreeMap::new(), &mut report);
        assert_eq!(report.skipped, [format!("archive policy {name}: Gnocchi has no raw points")]);
    }

    #[test]
    fn what_gnocchi_cannot_change_is_reported() {
        let ours = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(1);
        let methods = |change: &dyn Fn(&mut ArchivePolicy)| {
            let (mut theirs, mut report) = (ours.clone(), Report::default());
            change(&mut theirs);
            let lines = policy_lines(&ours, &by_path(theirs), &mut report);
            (
                lines.iter().map(|line| line.method.clone().unwrap()).collect::<Vec<_>>().join(" "),
                report.skipped.len(),
            )
        };
        assert_eq!(methods(&|theirs| theirs.back_window = 7), ("PATCH".to_owned(), 0));
        assert_eq!(
            methods(&|theirs| theirs.aggregation_methods = ["last".parse().unwrap()].into()),
            ("PATCH DELETE POST".to_owned(), 1)
        );
        assert_eq!(methods(&|theirs| theirs.definition.clear()), ("DELETE POST".to_owned(), 1));
    }

    #[test]
    fn numbers_that_json_lacks_are_left_out() {
        let kind = AttributeKind::Number { min: None, max: None };
        assert!(fits(kind, &AttributeValue::Number(f64::MAX)));
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            // In a request it would be a null, which Gnocchi refuses.
            assert_eq!(value_of(&AttributeValue::Number(number)), Value::Null);
            assert!(!fits(kind, &AttributeValue::Number(number)));
        }
    }

    #[test]
    fn a_neutral_value_keeps_the_bounds() {
        assert_eq!(neutral(AttributeKind::Number { min: Some(2.0), max: None }), AttributeValue::Number(2.0));
        assert_eq!(
            neutral(AttributeKind::Number { min: None, max: Some(-1.0) }),
            AttributeValue::Number(-1.0)
        );
        assert_eq!(
            neutral(AttributeKind::String { min_length: 2, max_length: 3 }),
            AttributeValue::String("  ".into())
        );
    }
}
