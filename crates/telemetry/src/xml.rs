//! XML documents as trees of elements, attributes and text, as hypervisors and services write them. Parsed by
//! roxmltree.
//!
//! Namespace prefixes are dropped, unless the names are wanted as they are written; comments, processing instructions
//! and document types are skipped. Entity declarations are an error, so that no document can expand.

use roxmltree::{Document, Node, NodeType, ParsingOptions};

/// Maximum nesting of elements in documents of hypervisors: libvirt nests the images below a disk's own, up to 200.
const DEPTH_MAX: usize = 256;

/// The same in documents of services, which may become metadata: readers of JSON accept fewer than 128 levels.
const DEPTH_AS_WRITTEN_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Without its prefix, unless parsed as written.
    pub name: String,
    /// In order, without prefixes and namespace declarations, unless parsed as written.
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    /// The text before the first child.
    pub text: String,
    /// All text, also after children.
    pub whole_text: String,
}

/// What is wrong, with line and column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    #[error("XML: {0}")]
    Syntax(#[from] roxmltree::Error),
    #[error("XML: elements are more than {0} deep")]
    Depth(usize),
    #[error("XML: the document declares entities")]
    Entities,
}

/// The form of names.
#[derive(Clone, Copy)]
enum Names {
    Local,
    AsWritten,
}

impl Element {
    pub fn parse(text: &str) -> Result<Element, XmlError> {
        Element::read(text, Names::Local)
    }

    /// With the names as they are written, prefixes included, and namespace declarations among the attributes.
    pub fn parse_as_written(text: &str) -> Result<Element, XmlError> {
        Element::read(text, Names::AsWritten)
    }

    fn read(text: &str, names: Names) -> Result<Element, XmlError> {
        if text.contains("<!ENTITY") {
            return Err(XmlError::Entities);
        }
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Element::of(Document::parse_with_options(text, options)?.root_element(), names, 0)
    }

    fn of(node: Node<'_, '_>, names: Names, depth: usize) -> Result<Element, XmlError> {
        let depth_max = match names {
            Names::Local => DEPTH_MAX,
            Names::AsWritten => DEPTH_AS_WRITTEN_MAX,
        };
        if depth >= depth_max {
            return Err(XmlError::Depth(depth_max));
        }
        let attribute = |attribute: roxmltree::Attribute<'_, '_>| {
            (attribute.name().to_owned(), attribute.value().to_owned())
        };
        let (name, attributes) = match names {
            Names::Local => (node.tag_name().name().to_owned(), node.attributes().map(attribute).collect()),
            Names::AsWritten => written(node),
        };
        let mut element = Element { name, attributes, ..Element::default() };
        for child in node.children() {
            match child.node_type() {
                NodeType::Element => element.children.push(Element::of(child, names, depth + 1)?),
                NodeType::Text => element.add_text(child.text().unwrap_or_default()),
                NodeType::Root | NodeType::Comment | NodeType::PI => {}
            }
        }
        Ok(element)
    }

    fn add_text(&mut self, text: &str) {
        if self.children.is_empty() {
            self.text.push_str(text);
        }
        self.whole_text.push_str(text);
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first child with this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first element on a path of names, such as `os/type`.
    pub fn find(&self, path: &str) -> Option<&Element> {
        path.split('/').try_fold(self, |element, name| element.child(name))
    }

    /// The text before the first child; `None` if there is none.
    pub fn own_text(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| !text.is_empty())
    }
}

/// An element's name and its attributes, as they are written.
fn written(node: Node<'_, '_>) -> (String, Vec<(String, String)>) {
    let (name, names) = names_in_tag(&node.document().input_text()[node.range().start..]);
    let mut others = node.attributes();
    let attribute = |name: &str| {
        let declares = name.strip_prefix("xmlns").filter(|rest| rest.is_empty() || rest.starts_with(':'));
        let value = match declares {
            Some(prefix) => node.lookup_namespace_uri(prefix.strip_prefix(':')),
            None => others.next().map(|attribute| attribute.value()),
        };
        (name.to_owned(), value.unwrap_or_default().to_owned())
    };
    (name.to_owned(), names.into_iter().map(attribute).collect())
}

/// The names of an element and its attributes in the start tag that the text begins with. It is well-formed.
fn names_in_tag(text: &str) -> (&str, Vec<&str>) {
    let text = text.strip_prefix('<').unwrap_or(text);
    let is_end = |letter: char| letter.is_ascii_whitespace() || letter == '/' || letter == '>';
    let (name, mut rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    let mut names = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.starts_with(['/', '>']) {
            break;
        }
        let Some((attribute, behind)) = rest.split_once('=') else { break };
        names.push(attribute.trim_ascii_end());
        let behind = behind.trim_ascii_start();
        let Some(quote) = behind.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else { break };
        let Some((_, behind)) = behind[1..].split_once(quote) else { break };
        rest = behind;
    }
    (name, names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_document_becomes_a_tree() {
        let root = Element::parse(
            "<?xml version='1.0'?><!-- a > b --><n:instance xmlns:n='urn:x' a=\"1 &lt; 2\">\n<n:name>web &amp; &#x63;o</n:name>\
             <n:empty/><b><![CDATA[<x>&]]></b></n:instance>\n",
        )
        .unwrap();
        assert_eq!((root.name.as_str(), root.attribute("a")), ("instance", Some("1 < 2")));
        assert_eq!(root.find("name").unwrap().own_text(), Some("web & co"));
        assert_eq!(root.child("empty").unwrap().own_text(), None);
        assert_eq!(root.child("b").unwrap().text, "<x>&");
        assert_eq!(root.attributes.len(), 1);
        assert!(root.find("name/none").is_none());
    }

    #[test]
    fn names_are_kept_as_they_are_written() {
        let text = "<?xml version='1.0'?>\n<n:a xmlns:n='u&amp;v' b = \"1>/\"\n n:c='=' xmlns=\"w\"><n:b/><d xmlns=''\txml:lang='é'>x</d></n:a>";
        let root = Element::parse_as_written(text).unwrap();
        let attributes = |element: &Element| -> Vec<String> {
            element.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        assert_eq!(root.name, "n:a");
        assert_eq!(attributes(&root), ["xmlns:n=u&v", "b=1>/", "n:c==", "xmlns=w"]);
        let [first, second] = &root.children[..] else { panic!("{root:?}") };
        assert_eq!((first.name.as_str(), attributes(first)), ("n:b", Vec::new()));
        assert_eq!((second.name.as_str(), second.text.as_str()), ("d", "x"));
        assert_eq!(attributes(second), ["xmlns=", "xml:lang=é"]);
        assert_eq!(Element::parse(text).unwrap().name, "a");
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels))
    }

    #[test]
    fn elements_may_be_as_deep_as_images_below_a_disk() {
        assert!(Element::parse(&nested(DEPTH_MAX)).is_ok());
        let too_deep = |parsed: Result<Element, XmlError>| parsed.unwrap_err().to_string();
        assert_eq!(too_deep(Element::parse(&nested(DEPTH_MAX + 1))), "XML: elements are more than 256 deep");
        assert!(Element::parse_as_written(&nested(DEPTH_AS_WRITTEN_MAX)).is_ok());
        assert_eq!(
            too_deep(Element::parse_as_written(&nested(DEPTH_AS_WRITTEN_MAX + 1))),
            "XML: elements are more than 64 deep"
        );
    }

    #[test]
    fn what_is_no_document_is_an_error() {
        let deep = "<a>".repeat(100_000);
        let deep_and_whole = nested(DEPTH_MAX + 1);
        for text in [
            "",
            "x",
            "<a>",
            "<a></b>",
            "<a b></a>",
            "<a b=c/>",
            "<a>&nbsp;</a>",
            "<a/><b/>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a/>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            deep.as_str(),
            deep_and_whole.as_str(),
        ] {
            let short = &text[..text.len().min(40)];
            assert!(Element::parse(text).unwrap_err().to_string().starts_with("XML: "), "{short}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_fatal(text in "[<>/a &;\"'=!\\[\\]-]{0,40}") {
            let _ = Element::parse(&text);
            let _ = Element::parse_as_written(&text);
        }
    }
}
