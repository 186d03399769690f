//! Pagination of listings: `limit`, `marker`, `sort`, and the link to the next page.

use gnudi_app::{
    ApiError, Result,
    json::Value,
    python,
    query::{Argument, Query},
    schema::Invalid,
};
use gnudi_indexer::{
    IndexerError, MetricMarker, Page, ResourceMarker, ResourcePage, ResourceSort, SortDirection,
};
use gnudi_model::{
    MetricId, Resource,
    python::{parse_uuid, quote_plus},
};

/// The default order of metrics.
pub const METRIC_SORTS: &[&str] = &["id:asc"];

/// The default order of resources.
pub const RESOURCE_SORTS: &[&str] = &["revision_start:asc", "started_at:asc"];

/// The pagination arguments of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pagination {
    pub limit: usize,
    marker: Option<String>,
    sorts: Vec<String>,
}

/// `int(text)`, or the nearest `i128`.
fn whole(text: &str) -> Option<i128> {
    let beyond = || {
        let has_digits_only = !text.contains(['.', 'e', 'E', 'i', 'I', 'n', 'N']);
        let number = python::float_of_text(text).filter(|_| has_digits_only)?;
        Some(if number < 0.0 { i128::MIN } else { i128::MAX })
    };
    python::int(&Value::from(text)).or_else(beyond)
}

impl Pagination {
    /// Parses the arguments; the limit is capped at `max_limit`.
    ///
    /// # Errors
    /// 400 for a wrong type.
    pub fn of(query: &Query, max_limit: usize, default_sorts: &[&str]) -> Result<Self> {
        let refuse = |name: &str, message: &str| {
            ApiError::bad_request(Value::object([
                ("cause", "Argument value error".into()),
                ("reason", Invalid::new(message).in_key(name).reason().into()),
            ]))
        };
        let sorts = default_sorts.iter().map(ToString::to_string).collect();
        let mut pagination = Pagination { limit: max_limit, marker: None, sorts };
        for name in query.names() {
            match (name, query.get(name)) {
                ("limit", Some(Argument::One(text))) => {
                    let limit = whole(text).ok_or_else(|| refuse(name, "expected int"))?;
                    if limit < 1 {
                        return Err(refuse(name, "value must be at least 1"));
                    }
                    pagination.limit = usize::try_from(limit).unwrap_or(usize::MAX).min(max_limit);
                }
                ("limit", _) => return Err(refuse(name, "expected int")),
                ("marker", Some(Argument::One(text))) => pagination.marker = Some(text.to_owned()),
                ("marker", _) => return Err(refuse(name, "expected str")),
                ("sort", _) => pagination.sorts = query.list(name),
                _ => {}
            }
        }
        Ok(pagination)
    }

    /// The page of metrics.
    ///
    /// # Errors
    /// 400 for an invalid marker or sort key.
    pub fn page(&self) -> Result<Page, IndexerError> {
        let id = |text| parse_uuid(text).ok_or_else(|| invalid_marker(text));
        let marker = self.marker().map(id).transpose()?.map(|id| MetricMarker::Id(MetricId(id)));
        let sorts = self.sorts.iter().map(|sort| sort.parse()).collect::<Result<_, _>>()?;
        Ok(Page { limit: self.limit, marker, sorts })
    }

    /// The direction, if the listing is sorted by this key only. For keys that the index does not have.
    ///
    /// # Errors
    /// 400 if there are other sort keys, or the direction is invalid.
    pub fn sort_by_only(&self, key: &str) -> Result<Option<SortDirection>, IndexerError> {
        let split = |sort: &String| {
            let (name, direction) = sort.split_once(':').unwrap_or((sort, ""));
            (name.trim() == key).then(|| direction.to_owned())
        };
        match (self.sorts.iter().find_map(split), self.sorts.len()) {
            (None, _) => Ok(None),
            (Some(direction), 1) => direction.parse().map(Some),
            (Some(_), _) => Err(IndexerError::InvalidPagination(format!("{key} sorts alone"))),
        }
    }

    /// The same page in the order of ids.
    pub fn unsorted(&self) -> Self {
        Pagination { sorts: Vec::new(), ..self.clone() }
    }

    /// The page of resources, or of their revisions with `history`.
    ///
    /// # Errors
    /// 400 for a marker that is no id (with `history`, no `id@revision`), or an invalid direction.
    pub fn resource_page(&self, history: bool) -> Result<ResourcePage, IndexerError> {
        let marker = |text| resource_marker(text, history).ok_or_else(|| invalid_marker(text));
        let marker = self.marker().map(marker).transpose()?;
        let sort = |text: &String| resource_sort(text, SortDirection::Ascending);
        let sorts = self.sorts.iter().map(sort).collect::<Result<_, _>>()?;
        Ok(ResourcePage { limit: Some(self.limit), marker, sorts })
    }

    fn marker(&self) -> Option<&str> {
        self.marker.as_deref().filter(|marker| !marker.is_empty())
    }
}

/// Parses `field` or `field:direction`.
///
/// # Errors
/// 400 for an unknown direction.
pub fn resource_sort(text: &str, default: SortDirection) -> Result<ResourceSort, IndexerError> {
    let (field, direction) = text.split_once(':').unwrap_or((text, ""));
    let direction = if direction.is_empty() { default } else { direction.parse()? };
    Ok(ResourceSort { field: field.trim().to_owned(), direction })
}

/// The error for a marker that is none.
pub fn invalid_marker(text: &str) -> IndexerError {
    IndexerError::InvalidPagination(format!("Invalid marker: `{text}'"))
}

fn resource_marker(text: &str, history: bool) -> Option<ResourceMarker> {
    if !history {
        return Some(ResourceMarker::Revision { id: parse_uuid(text)?, revision: Resource::CURRENT });
    }
    let (id, revision) = text.split_once('@')?;
    let revision = i64::try_from(python::int(&Value::from(revision))?).ok()?;
    Some(ResourceMarker::Revision { id: parse_uuid(id)?, revision })
}

/// The `Link` header of the next page: the request's arguments in order of their names, with the new marker. `sorts` is
/// left out: Gnocchi's own name of `sort`.
pub fn next_link(url: &str, query: &Query, pagination: &Pagination, marker: &str) -> String {
    let mut arguments: Vec<(&str, Vec<&str>)> = query
        .names()
        .into_iter()
        .filter(|name| !matches!(*name, "limit" | "marker" | "sort" | "sorts"))
        .filter_map(|name| match query.get(name)? {
            Argument::One(value) => Some((name, vec![value])),
            Argument::Several(values) => Some((name, values)),
        })
        .collect();
    let limit = pagination.limit.to_string();
    arguments.push(("limit", vec![&limit]));
    arguments.push(("marker", vec![marker]));
    arguments.push(("sort", pagination.sorts.iter().map(String::as_str).collect()));
    arguments.sort();
    let pairs: Vec<String> = arguments
        .into_iter()
        .flat_map(|(name, values)| {
            values.into_iter().map(move |value| format!("{}={}", quote_plus(name), quote_plus(value)))
        })
        .collect();
    format!("<{url}?{}>; rel=\"next\"", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use gnudi_indexer::{MetricSort, SortDirection, SortKey};

    use super::*;

    fn of(text: &str) -> Result<Pagination, String> {
        Pagination::of(&Query::parse(Some(text)), 7, METRIC_SORTS).map_err(|error| error.detail.to_json())
    }

    #[test]
    fn the_limit_is_cut_to_the_maximum() {
        assert_eq!(of("").unwrap().limit, 7);
        assert_eq!(of("limit=3").unwrap().limit, 3);
        assert_eq!(of("limit=99999999999999999999").unwrap().limit, 7);
        assert_eq!(of(&format!("limit={}", "9".repeat(40))).unwrap().limit, 7);
        assert!(of(&format!("limit=-{}", "9".repeat(40))).is_err() && of("limit=1e40").is_err());
        for (text, reason) in [
            ("limit=0", "value must be at least 1 for dictionary value @ data['limit']"),
            ("limit=x", "expected int for dictionary value @ data['limit']"),
            ("limit=1&limit=2", "expected int for dictionary value @ data['limit']"),
            ("marker=1&marker=2", "expected str for dictionary value @ data['marker']"),
        ] {
            let expected = format!(r#"{{"cause": "Argument value error", "reason": "{reason}"}}"#);
            assert_eq!(of(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn sorts_name_a_key_and_a_direction() {
        let page = of("sort=name:desc&sort=id").unwrap().page().unwrap();
        assert_eq!(
            page.sorts,
            [
                MetricSort { key: SortKey::Name, direction: SortDirection::Descending },
                MetricSort { key: SortKey::Id, direction: SortDirection::Ascending },
            ]
        );
        assert!(of("sort=").unwrap().page().unwrap().sorts.is_empty());
        for (text, reason) in [
            ("sort=foo", "Invalid pagination: `Sort key supplied is invalid: foo'"),
            ("sort=:sideways", "Invalid pagination: `Sort key supplied is invalid: '"),
            ("sort=&sort=id", "Invalid pagination: `Sort key supplied is invalid: '"),
            (
                "sort=name:foo",
                "Invalid pagination: `Unknown sort direction, must be one of: asc-nullsfirst, asc-nullslast, \
                 desc-nullsfirst, desc-nullslast'",
            ),
            ("marker=foo", "Invalid pagination: `Invalid marker: `foo''"),
        ] {
            assert_eq!(of(text).unwrap().page().unwrap_err().to_string(), reason, "{text}");
        }
    }

    #[test]
    fn a_page_of_resources_has_a_marker_of_its_kind() {
        let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
        let page = |text: String, history| {
            let page =
                Pagination::of(&Query::parse(Some(&text)), 7, RESOURCE_SORTS).unwrap().resource_page(history);
            page.map_err(|error| error.to_string())
        };
        let ascending =
            |field: &str| ResourceSort { field: field.to_owned(), direction: SortDirection::Ascending };
        let sorts = vec![ascending("revision_start"), ascending("started_at")];
        let expected = |marker| Ok(ResourcePage { limit: Some(7), marker, sorts: sorts.clone() });
        let marker = |revision| Some(ResourceMarker::Revision { id: parse_uuid(id).unwrap(), revision });
        assert_eq!(page("marker=".to_owned(), false), expected(None));
        assert_eq!(page(format!("marker={id}"), false), expected(marker(-1)));
        assert_eq!(page(format!("marker={id}@-1"), true), expected(marker(-1)));
        assert_eq!(page(format!("marker={id}@12"), true), expected(marker(12)));
        for (marker, history) in
            [(format!("{id}@1"), false), (id.to_owned(), true), (format!("{id}@x"), true)]
        {
            let refusal = format!("Invalid pagination: `Invalid marker: `{marker}''");
            assert_eq!(page(format!("marker={marker}"), history), Err(refusal));
        }
        assert!(page("sort=foo:up".to_owned(), false).unwrap_err().contains("Unknown sort direction"));
        assert_eq!(page("sort=foo".to_owned(), false).unwrap().sorts, [ascending("foo")]);
    }

    #[test]
    fn the_next_page_keeps_the_arguments() {
        let query = Query::parse(Some("limit=99&foo=b%20r&foo=2&sorts=unit&sort=name:asc&sort=id:desc"));
        let pagination = Pagination::of(&query, 7, METRIC_SORTS).unwrap();
        assert_eq!(
            next_link("http://h/v1/metric", &query, &pagination, "m"),
            "<http://h/v1/metric?foo=b+r&foo=2&limit=7&marker=m&sort=name%3Aasc&sort=id%3Adesc>; rel=\"next\""
        );
    }
}
