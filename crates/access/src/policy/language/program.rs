//! Rules compiled to one flat list of steps.

use std::{borrow::Cow, collections::HashMap};

use super::{
    DEPTH_MAX, RULES_MAX,
    check::Check,
    parse::{self, Expression},
};

/// The inputs of a query: caller and target.
pub trait Facts {
    /// Whether the caller has the role; ignores case.
    fn has_role(&self, role: &str) -> bool;
    /// Whether the caller's attribute equals the text.
    fn caller_has(&self, field: &[String], text: &str) -> bool;
    /// The target's attribute of this name, as Python prints it; `None` if it has none.
    fn target(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// The source of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Text(String),
    /// An `or` over lists, each an `and` over checks.
    Lists(Vec<Vec<String>>),
}

/// Why rules are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The rule's name.
    pub name: String,
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Sets the result.
    Is(bool),
    /// Sets the result to the check's.
    Check(usize),
    /// Sets the result to the rule's.
    Rule(usize),
    Not,
    /// Jumps if the result is `if_is`.
    Skip {
        if_is: bool,
        to: usize,
    },
}

/// Compiled rules.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    checks: Vec<Check>,
    /// The range of each rule's steps.
    rules: Vec<std::ops::Range<usize>>,
    names: HashMap<String, usize>,
    /// Undefined names, each with a rule that refers to it.
    undefined: Vec<(String, String)>,
}

/// Results of rules within one query, two bits per rule.
struct KnownRules([u64; RULES_MAX / 32]);

impl KnownRules {
    fn get(&self, rule: usize) -> Option<bool> {
        match self.0[rule / 32] >> (rule % 32 * 2) & 3 {
            0 => None,
            bits => Some(bits == 3),
        }
    }

    fn set(&mut self, rule: usize, answer: bool) {
        self.0[rule / 32] |= (2 | u64::from(answer)) << (rule % 32 * 2);
    }
}

/// Compiles rules by name. References to undefined rules use the rule `default`; if that is undefined too,
/// they deny.
///
/// # Errors
/// Invalid rules; cycles, and chains that are too long; too many rules.
pub fn compile(sources: &[(String, Source)], default: &str) -> Result<Program, Refused> {
    let refuse = |name: &str, problem: String| Refused { name: name.to_owned(), problem };
    let names: HashMap<String, usize> =
        sources.iter().enumerate().map(|(index, (name, _))| (name.clone(), index)).collect();
    if let Some((name, _)) = sources.get(RULES_MAX) {
        return Err(refuse(name, format!("there are more than {RULES_MAX} rules")));
    }
    let mut program =
        Program { steps: Vec::new(), checks: Vec::new(), rules: Vec::new(), names, undefined: Vec::new() };
    let mut calls = Vec::with_capacity(sources.len());
    for (name, source) in sources {
        let expression = match source {
            Source::Text(text) => parse::text(text),
            Source::Lists(lists) => parse::lists(lists),
        };
        let expression = expression.map_err(|problem| refuse(name, problem))?;
        let from = program.steps.len();
        program.push(&expression, name, default);
        program.rules.push(from..program.steps.len());
        let called = program.steps[from..].iter().filter_map(|step| match step {
            Step::Rule(rule) => Some(*rule),
            _ => None,
        });
        calls.push(called.collect::<Vec<usize>>());
    }
    let mut heights = vec![None; sources.len()];
    for rule in 0..sources.len() {
        height(rule, &calls, &mut heights, &mut Vec::new())
            .map_err(|chain| refuse(&sources[rule].0, chain_text(&chain, sources)))?;
    }
    Ok(program)
}

/// The length of the longest chain of references from this rule on.
///
/// # Errors
/// The chain, if it is a cycle or too long.
fn height(
    rule: usize,
    calls: &[Vec<usize>],
    heights: &mut [Option<usize>],
    chain: &mut Vec<usize>,
) -> Result<usize, Vec<usize>> {
    if let Some(height) = heights[rule] {
        return if chain.len() + height > DEPTH_MAX { Err(chain.clone()) } else { Ok(height) };
    }
    let is_cycle = chain.contains(&rule);
    chain.push(rule);
    if is_cycle || chain.len() > DEPTH_MAX {
        return Err(chain.clone());
    }
    let mut below = 0;
    for called in &calls[rule] {
        below = below.max(height(*called, calls, heights, chain)?);
    }
    chain.pop();
    heights[rule] = Some(below + 1);
    Ok(below + 1)
}

fn chain_text(chain: &[usize], sources: &[(String, Source)]) -> String {
    const SHOWN_MAX: usize = 8;
    let is_cycle = chain.last().is_some_and(|last| chain[..chain.len() - 1].contains(last));
    let mut names: Vec<&str> = chain.iter().map(|rule| sources[*rule].0.as_str()).collect();
    if names.len() > SHOWN_MAX {
        names.truncate(SHOWN_MAX);
        names.push("...");
    }
    let names = names.join("` -> `");
    if is_cycle {
        format!("rules refer to each other in a circle: `{names}`")
    } else {
        format!("rules refer to each other more than {DEPTH_MAX} deep: `{names}`")
    }
}

impl Program {
    /// The index of a rule.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Undefined names, each with a rule that refers to it.
    pub fn undefined(&self) -> &[(String, String)] {
        &self.undefined
    }

    /// Whether any rule refers to this one.
    pub fn is_referred_to(&self, name: &str) -> bool {
        self.find(name).is_some_and(|rule| self.steps.contains(&Step::Rule(rule)))
    }

    /// Whether the rule allows.
    pub fn allows(&self, rule: usize, facts: &impl Facts) -> bool {
        self.run(rule, facts, &mut KnownRules([0; RULES_MAX / 32]))
    }

    fn run(&self, rule: usize, facts: &impl Facts, known: &mut KnownRules) -> bool {
        if let Some(answer) = known.get(rule) {
            return answer;
        }
        let mut at = self.rules[rule].start;
        let mut answer = true;
        while at < self.rules[rule].end {
            match &self.steps[at] {
                Step::Is(is) => answer = *is,
                Step::Check(check) => answer = self.checks[*check].holds(facts).unwrap_or(false),
                Step::Rule(called) => answer = self.run(*called, facts, known),
                Step::Not => answer = !answer,
                Step::Skip { if_is, to } if *if_is == answer => {
                    at = *to;
                    continue;
                }
                Step::Skip { .. } => {}
            }
            at += 1;
        }
        known.set(rule, answer);
        answer
    }

    /// Whether the rule, or one it refers to, uses a target's attribute for which `wanted` is true.
    pub fn uses_attribute(&self, rule: usize, wanted: impl Fn(&str) -> bool) -> bool {
        self.reaches(rule, |step| match step {
            Step::Check(check) => self.checks[*check].attributes().any(&wanted),
            _ => false,
        })
    }

    /// Whether the rule, or one it refers to, has a `not`: only then may more facts turn allow into deny.
    pub fn has_negation(&self, rule: usize) -> bool {
        self.reaches(rule, |step| matches!(step, Step::Not))
    }

    /// Whether the rule refers to a wanted one, directly or not.
    pub fn refers_to(&self, rule: usize, wanted: impl Fn(usize) -> bool) -> bool {
        self.reaches(rule, |step| matches!(step, Step::Rule(called) if wanted(*called)))
    }

    fn reaches(&self, rule: usize, wanted: impl Fn(&Step) -> bool) -> bool {
        let mut seen = vec![false; self.rules.len()];
        let mut waiting = vec![rule];
        while let Some(rule) = waiting.pop() {
            if std::mem::replace(&mut seen[rule], true) {
                continue;
            }
            for step in &self.steps[self.rules[rule].clone()] {
                if wanted(step) {
                    return true;
                }
                if let Step::Rule(called) = step {
                    waiting.push(*called);
                }
            }
        }
        false
    }

    fn push(&mut self, expression: &Expression, name: &str, default: &str) {
        match expression {
            Expression::Allow => self.steps.push(Step::Is(true)),
            Expression::Deny => self.steps.push(Step::Is(false)),
            Expression::Check(Check::Rule(called)) => {
                let rule = self.find(called).or_else(|| self.find(default));
                if self.find(called).is_none() {
                    self.undefined.push((called.clone(), name.to_owned()));
                }
                self.steps.push(rule.map_or(Step::Is(false), Step::Rule));
            }
            Expression::Check(check) => {
                self.steps.push(Step::Check(self.checks.len()));
                self.checks.push(check.clone());
            }
            Expression::Not(inner) => {
                self.push(inner, name, default);
                self.steps.push(Step::Not);
            }
            Expression::All(inner) => self.push_joined(inner, false, name, default),
            Expression::Any(inner) => self.push_joined(inner, true, name, default),
        }
    }

    /// After each expression but the last, adds a jump to the end, taken once the result is decided.
    fn push_joined(&mut self, inner: &[Expression], ends: bool, name: &str, default: &str) {
        let mut skips = Vec::with_capacity(inner.len());
        for (index, expression) in inner.iter().enumerate() {
            if index > 0 {
                skips.push(self.steps.len());
                self.steps.push(Step::Skip { if_is: ends, to: 0 });
            }
            self.push(expression, name, default);
        }
        let end = self.steps.len();
        for skip in skips {
            self.steps[skip] = Step::Skip { if_is: ends, to: end };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Callers with one role and one project, targets with one attribute; counts the queries.
    struct TestFacts<'a> {
        role: &'a str,
        project: &'a str,
        owner: Option<&'a str>,
        questions: Cell<usize>,
    }

    impl Facts for TestFacts<'_> {
        fn has_role(&self, role: &str) -> bool {
            self.questions.set(self.questions.get() + 1);
            self.role == role
        }

        fn caller_has(&self, field: &[String], text: &str) -> bool {
            field == ["project"] && self.project == text
        }

        fn target(&self, name: &str) -> Option<Cow<'_, str>> {
            self.owner.filter(|_| name == "owner").map(Cow::Borrowed)
        }
    }

    fn test_facts<'a>(role: &'a str, project: &'a str, owner: Option<&'a str>) -> TestFacts<'a> {
        TestFacts { role, project, owner, questions: Cell::default() }
    }

    fn compiled(rules: &[(&str, &str)]) -> Result<Program, Refused> {
        let sources: Vec<_> =
            rules.iter().map(|(name, text)| ((*name).to_owned(), Source::Text((*text).to_owned()))).collect();
        compile(&sources, "default")
    }

    fn allows(rules: &[(&str, &str)], facts: &TestFacts<'_>) -> bool {
        compiled(rules).unwrap().allows(0, facts)
    }

    #[test]
    fn rules_mean_what_they_say() {
        let owned = |text| [("r", text), ("own", "project:%(owner)s"), ("admin", "role:admin")];
        for (text, expected) in [
            // The columns: another project's admin, a member of the owner's project, of another's, and a
            // target without owner.
            ("rule:admin or rule:own", [true, true, false, false]),
            ("rule:admin and not rule:own", [true, false, false, false]),
            ("not (rule:admin or rule:own)", [false, false, true, true]),
            ("'o':%(owner)s", [true, true, true, false]),
            ("rule:missing", [false; 4]),
            ("not rule:missing", [true; 4]),
            ("", [true; 4]),
            ("!", [false; 4]),
            ("! or @ and role:admin", [true, false, false, false]),
            ("role:%(owner)s", [false; 4]),
        ] {
            let facts = [
                test_facts("admin", "p", Some("o")),
                test_facts("member", "o", Some("o")),
                test_facts("member", "p", Some("o")),
                test_facts("member", "p", None),
            ];
            assert_eq!(facts.map(|facts| allows(&owned(text), &facts)), expected, "{text}");
        }
    }

    #[test]
    fn the_default_stands_for_rules_that_are_not_there() {
        let rules = [("r", "rule:missing"), ("default", "role:admin")];
        assert!(allows(&rules, &test_facts("admin", "", None)));
        assert!(!allows(&rules, &test_facts("member", "", None)));
        let undefined = compiled(&rules).unwrap();
        assert_eq!(undefined.undefined(), [("missing".to_owned(), "r".to_owned())]);
    }

    #[test]
    fn circles_and_long_chains_are_refused() {
        for rules in [
            &[("a", "rule:a")][..],
            &[("a", "role:x or rule:b"), ("b", "not rule:c"), ("c", "(@ and rule:a)")],
            &[("a", "rule:missing"), ("default", "rule:missing_too")],
        ] {
            let refused = compiled(rules).unwrap_err();
            assert!(refused.problem.contains("circle"), "{refused:?}");
        }
        let chain = |length: usize| {
            let name = |index: usize| format!("r{index}");
            let mut sources: Vec<_> =
                (1..length).map(|index| (name(index - 1), Source::Text(format!("rule:r{index}")))).collect();
            sources.push((name(length - 1), Source::Text("@".to_owned())));
            sources
        };
        assert!(compile(&chain(DEPTH_MAX), "").unwrap().allows(0, &test_facts("", "", None)));
        let mut backwards = chain(DEPTH_MAX + 1);
        assert!(compile(&backwards, "").unwrap_err().problem.contains("deep"));
        backwards.reverse();
        assert!(compile(&backwards, "").unwrap_err().problem.contains("deep"));
        assert!(compile(&chain(RULES_MAX + 1), "").unwrap_err().problem.contains("more than 512 rules"));
    }

    /// Without the cache of results this would take 2^60 steps.
    #[test]
    fn a_rule_is_evaluated_once_per_query() {
        let mut sources: Vec<_> = (0..60)
            .map(|index| {
                let below = format!("rule:r{0} or rule:r{0}", index + 1);
                (format!("r{index}"), Source::Text(below))
            })
            .collect();
        sources.push(("r60".to_owned(), Source::Text("role:x".to_owned())));
        let program = compile(&sources, "").unwrap();
        let facts = test_facts("member", "", None);
        assert!(!program.allows(0, &facts));
        assert_eq!(facts.questions.get(), 1);
    }

    #[test]
    fn used_attributes_are_known_at_compile_time() {
        let program =
            compiled(&[("a", "role:x or rule:b"), ("b", "x:%(resource.id)s"), ("c", "not role:x")]).unwrap();
        let of_resource = |name: &str| name.starts_with("resource.");
        assert!(program.uses_attribute(0, of_resource) && !program.uses_attribute(2, of_resource));
        assert!(!program.has_negation(0) && program.has_negation(2));
    }
}
