//! Authorization: [`Policy::allows`] is checked before every handler.
//!
//! Rules have Gnocchi's names and defaults ([`Rule`]). An operator's files override single rules (`file`), in
//! oslo.policy's language (`language`). `scope` decides which items of a listing a caller sees.

mod caller;
mod file;
pub mod language;
mod rule;
mod scope;
mod target;

pub use caller::Caller;
pub use file::{PolicyError, PolicyFiles};
use language::{Program, Source};
pub use rule::Rule;
pub use scope::{Forbidden, Scope};
use target::Question;
pub use target::{Target, created_by};

/// All rules, compiled.
#[derive(Clone, Debug)]
pub struct Policy {
    program: Program,
    /// By the rule's discriminant.
    rules: Vec<Compiled>,
}

/// What an operator's files override of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overridden {
    Nothing,
    /// Only rules that it refers to.
    Parts,
    Rule,
}

/// Properties of a rule, computed at load time.
#[derive(Clone, Copy, Debug)]
struct Compiled {
    /// Its index in the program.
    number: usize,
    overridden: Overridden,
    /// Whether it depends on a metric's resource.
    uses_resource: bool,
    /// Whether more facts may turn allow into deny.
    has_negation: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self::of(&[], DEFAULT_RULE).expect("Gnocchi's rules are sound")
    }
}

/// The rule that replaces undefined ones.
pub const DEFAULT_RULE: &str = "default";

impl Policy {
    /// Gnocchi's defaults, with these overrides.
    ///
    /// # Errors
    /// Rules that [`language::compile`] refuses.
    fn of(overrides: &[(String, Source)], default_rule: &str) -> Result<Self, language::Refused> {
        let kept = rule::defaults()
            .filter(|(name, _)| overrides.iter().all(|(overridden, _)| overridden != name))
            .map(|(name, text)| (name.to_owned(), Source::Text(text.to_owned())));
        // Overrides come first, so that errors are attributed to them.
        let sources: Vec<(String, Source)> = overrides.iter().cloned().chain(kept).collect();
        let program = language::compile(&sources, default_rule)?;
        let overridden: Vec<usize> = overrides.iter().filter_map(|(name, _)| program.find(name)).collect();
        let compiled = |rule: &Rule| {
            let number = program.find(rule.name()).expect("each rule has a default");
            let overridden = if overridden.contains(&number) {
                Overridden::Rule
            } else if program.refers_to(number, |called| overridden.contains(&called)) {
                Overridden::Parts
            } else {
                Overridden::Nothing
            };
            Compiled {
                number,
                overridden,
                uses_resource: program.uses_attribute(number, |name| name.starts_with("resource.")),
                has_negation: program.has_negation(number),
            }
        };
        let rules = Rule::ALL.iter().map(compiled).collect();
        Ok(Policy { program, rules })
    }

    /// Whether the rule allows the caller on the target. Does not allocate with Gnocchi's defaults.
    pub fn allows(&self, rule: Rule, caller: &Caller, target: Target<'_>) -> bool {
        self.program.allows(self.compiled(rule).number, &Question { caller, target })
    }

    /// Whether an operator's file overrides the rule itself; a rule that it refers to does not count.
    pub fn is_overridden(&self, rule: Rule) -> bool {
        self.compiled(rule).overridden == Overridden::Rule
    }

    /// Whether an operator's file overrides the rule or one that it refers to. Only then may
    /// [`Policy::metrics_allowed`] contain metrics that the rule denies.
    pub fn is_customised(&self, rule: Rule) -> bool {
        self.compiled(rule).overridden != Overridden::Nothing
    }

    /// Whether the result for a metric may change once its resource is known; `answer` is the result without
    /// it.
    pub fn depends_on_resource(&self, rule: Rule, answer: bool) -> bool {
        let compiled = self.compiled(rule);
        compiled.uses_resource && (!answer || compiled.has_negation)
    }

    fn compiled(&self, rule: Rule) -> &Compiled {
        &self.rules[rule as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::AttributeValue;

    use super::*;

    fn member(user: &str, project: &str) -> Caller {
        Caller {
            user: format!("{user}:{project}"),
            user_id: Some(user.to_owned()),
            project_id: Some(project.to_owned()),
            ..Caller::default()
        }
    }

    /// Every rule for every kind of caller, on a target created by `u1:p1`. A metric's resource belongs to
    /// `p2`, a resource itself to `p3`.
    #[test]
    fn rules_are_gnocchis_defaults() {
        let target = Target::Given(&[
            ("creator", Some("u1:p1")),
            ("created_by_project_id", Some("p1")),
            ("project_id", Some("p3")),
            ("resource.project_id", Some("p2")),
        ]);
        let with = |role: &str, caller: Caller| Caller { roles: [role.to_owned()].into(), ..caller };
        let callers = [
            ("admin", with("Admin", member("a", "pa"))),
            ("service", with("service", member("s", "ps"))),
            ("creator", member("u1", "p1")),
            ("same project", with("reader", member("u2", "p1"))),
            ("owner", with("member", member("u3", "p2"))),
            ("resource owner", member("u5", "p3")),
            ("stranger", with("member", member("u4", "p4"))),
            ("basic", Caller { user: "u1".to_owned(), ..Caller::default() }),
        ];
        let policy = Policy::default();
        for rule in Rule::ALL {
            let may: Vec<&str> = callers
                .iter()
                .filter(|(_, caller)| policy.allows(rule, caller, target))
                .map(|(name, _)| *name)
                .collect();
            let expected: &[&str] = match rule {
                Rule::GetArchivePolicy
                | Rule::ListArchivePolicy
                | Rule::GetArchivePolicyRule
                | Rule::ListArchivePolicyRule
                | Rule::CreateMetric
                | Rule::CreateResource
                | Rule::GetResourceType
                | Rule::ListResourceType => &[
                    "admin",
                    "service",
                    "creator",
                    "same project",
                    "owner",
                    "resource owner",
                    "stranger",
                    "basic",
                ],
                Rule::GetStatus
                | Rule::UpdateArchivePolicy
                | Rule::DeleteArchivePolicy
                | Rule::CreateArchivePolicyRule
                | Rule::UpdateArchivePolicyRule
                | Rule::DeleteArchivePolicyRule
                | Rule::DeleteResourceType
                | Rule::GetProfile => &["admin"],
                Rule::CreateArchivePolicy | Rule::CreateResourceType | Rule::UpdateResourceType => {
                    &["admin", "service"]
                }
                Rule::UpdateMetric
                | Rule::DeleteMetric
                | Rule::DeleteResource
                | Rule::DeleteResources
                | Rule::DeleteAnnotation => &["admin", "creator", "same project"],
                Rule::ListMetric | Rule::SearchMetric => &["admin", "creator", "same project", "owner"],
                Rule::PostMeasures | Rule::UpdateResource => &["admin", "service", "creator", "same project"],
                Rule::GetResource | Rule::ListResource => {
                    &["admin", "creator", "same project", "resource owner"]
                }
                Rule::SearchResource | Rule::GetAnnotation | Rule::CreateAnnotation => {
                    &["admin", "service", "creator", "same project", "resource owner"]
                }
                Rule::GetMetric | Rule::GetMeasures => {
                    &["admin", "service", "creator", "same project", "owner"]
                }
            };
            assert_eq!(may, expected, "{rule:?}");
            let own = Target::Given(&[("creator", Some("u1")), ("created_by_project_id", Some(""))]);
            let basic = &callers[7].1;
            assert_eq!(policy.allows(rule, basic, own), expected.contains(&"creator"), "{rule:?}");
        }
    }

    #[test]
    fn a_name_is_its_creator_only_as_a_whole() {
        let caller = |user: &str| Caller { user: user.to_owned(), ..Caller::default() };
        let target = Target::Given(&[("creator", Some("foobar")), ("created_by_project_id", Some(""))]);
        let may = |caller: Caller| Policy::default().allows(Rule::PostMeasures, &caller, target);
        assert!(may(caller("foobar")));
        assert!(!may(caller("foobar:")));
        assert!(!may(caller("foo")));
        assert!(!may(caller("")));
        assert!(!Policy::default().allows(Rule::PostMeasures, &caller(""), Target::Nothing));
        // A token without a project owns nothing, not even items without a project.
        let unscoped = Caller { project_id: None, ..member("u", "") };
        assert!(!may(unscoped.clone()));
        let free = Target::Given(&[("project_id", None)]);
        assert!(!Policy::default().allows(Rule::GetResource, &unscoped, free));
    }

    #[test]
    fn a_metrics_resource_is_looked_up_only_if_it_may_matter() {
        let policy = Policy::default();
        assert!(policy.depends_on_resource(Rule::GetMeasures, false));
        assert!(!policy.depends_on_resource(Rule::GetMeasures, true));
        assert!(!policy.depends_on_resource(Rule::PostMeasures, false));
        let text = "not project_id:%(resource.project_id)s";
        let overrides = [("get measures".to_owned(), Source::Text(text.to_owned()))];
        let policy = Policy::of(&overrides, DEFAULT_RULE).unwrap();
        assert!(policy.depends_on_resource(Rule::GetMeasures, true));
        assert!(policy.is_overridden(Rule::GetMeasures) && !policy.is_overridden(Rule::GetMetric));
    }

    #[test]
    fn a_new_resource_is_asked_for_its_attributes() {
        let overrides = [("create resource".to_owned(), Source::Text("not 'red':%(colour)s".to_owned()))];
        let policy = Policy::of(&overrides, DEFAULT_RULE).unwrap();
        let may = |colour: &str| {
            let attributes = BTreeMap::from([("colour".into(), AttributeValue::String(colour.into()))]);
            let target = Target::NewResource(&[("user_id", None)], &attributes);
            policy.allows(Rule::CreateResource, &Caller::default(), target)
        };
        assert!(may("blue") && !may("red"));
    }

    #[test]
    fn a_rule_is_customised_by_those_that_it_refers_to() {
        let customised = |name: &str| {
            let overrides = [(name.to_owned(), Source::Text("role:admin".to_owned()))];
            let policy = Policy::of(&overrides, DEFAULT_RULE).unwrap();
            let rules = [Rule::GetMeasures, Rule::ListArchivePolicy];
            rules.map(|rule| (policy.is_overridden(rule), policy.is_customised(rule)))
        };
        assert_eq!(customised("get measures"), [(true, true), (false, false)]);
        assert_eq!(customised("creator"), [(false, true), (false, false)]);
        assert_eq!(customised("nothing"), [(false, false), (false, false)]);
    }
}
