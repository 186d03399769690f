//! XML documents as trees, as far as hypervisors and services write them: elements, attributes, text, character references.
//!
//! Names lose their prefixes. Comments, instructions and document types are passed over; entities that a document declares
//! itself are an error, so that no document grows beyond its own size.

/// Elements within elements: deeper is no document that anybody means.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Without a prefix.
    pub name: String,
    /// Without prefixes, in their order; declarations of namespaces are left out.
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    /// What stands before the first child.
    pub text: String,
    /// All text, around the children too.
    pub whole_text: String,
}

/// What is wrong, and where: bytes from the start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("XML: {problem}, at byte {at}")]
pub struct XmlError {
    problem: String,
    at: usize,
}

impl Element {
    pub fn parse(text: &str) -> Result<Element, XmlError> {
        let mut parser = Parser { text, at: 0 };
        parser.skip_misc()?;
        let root = parser.element(0)?;
        parser.skip_misc()?;
        if parser.at < text.len() { Err(parser.wrong("more than one element")) } else { Ok(root) }
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first child of the name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children of the name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first element on a path of names, such as `os/type`.
    pub fn find(&self, path: &str) -> Option<&Element> {
        path.split('/').try_fold(self, |element, name| element.child(name))
    }

    /// The text before the first child; `None` where there is none.
    pub fn own_text(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| !text.is_empty())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn wrong(&self, problem: impl Into<String>) -> XmlError {
        XmlError { problem: problem.into(), at: self.at }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Steps behind the next `end`.
    fn skip_past(&mut self, end: &str) -> Result<&'a str, XmlError> {
        let rest = self.rest();
        let found = rest.find(end).ok_or_else(|| self.wrong(format!("no {end}")))?;
        self.at += found + end.len();
        Ok(&rest[..found])
    }

    /// Steps over what stands around the root element.
    fn skip_misc(&mut self) -> Result<(), XmlError> {
        self.at += usize::from(self.rest().starts_with('\u{feff}')) * '\u{feff}'.len_utf8();
        loop {
            self.skip_space();
            let rest = self.rest();
            if rest.starts_with("<?") {
                self.skip_past("?>")?;
            } else if rest.starts_with("<!--") {
                self.skip_past("-->")?;
            } else if rest.starts_with("<!") {
                if self.skip_past(">")?.contains('[') {
                    return Err(self.wrong("a document type of its own"));
                }
            } else {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Result<&'a str, XmlError> {
        let rest = self.rest();
        let end = rest
            .find(|letter: char| letter.is_whitespace() || "/>=<\"'&".contains(letter))
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(self.wrong("no name"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn element(&mut self, depth: usize) -> Result<Element, XmlError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("too many elements within elements"));
        }
        if !self.rest().starts_with('<') {
            return Err(self.wrong("no element"));
        }
        self.at += 1;
        let full_name = self.name()?;
        let mut element = Element { name: local(full_name).to_owned(), ..Element::default() };
        loop {
            self.skip_space();
            let rest = self.rest();
            if rest.starts_with("/>") {
                self.at += 2;
                return Ok(element);
            }
            if rest.starts_with('>') {
                self.at += 1;
                self.content(&mut element, full_name, depth)?;
                return Ok(element);
            }
            let (key, value) = self.attribute()?;
            if key != "xmlns" && !key.starts_with("xmlns:") {
                element.attributes.push((local(key).to_owned(), value));
            }
        }
    }

    fn attribute(&mut self) -> Result<(&'a str, String), XmlError> {
        let key = self.name()?;
        self.skip_space();
        if !self.rest().starts_with('=') {
            return Err(self.wrong(format!("attribute {key} without a value")));
        }
        self.at += 1;
        self.skip_space();
        let quote = match self.rest().chars().next() {
            Some('"') => "\"",
            Some('\'') => "'",
            _ => return Err(self.wrong(format!("attribute {key} without quotes"))),
        };
        self.at += 1;
        let raw = self.skip_past(quote)?;
        Ok((key, self.unescape(raw)?))
    }

    fn content(&mut self, element: &mut Element, full_name: &str, depth: usize) -> Result<(), XmlError> {
        loop {
            let rest = self.rest();
            let text = &rest[..rest.find('<').ok_or_else(|| self.wrong(format!("no </{full_name}>")))?];
            self.at += text.len();
            let text = self.unescape(text)?;
            add_text(element, &text);
            let rest = self.rest();
            if rest.starts_with("<![CDATA[") {
                self.at += "<![CDATA[".len();
                let text = self.skip_past("]]>")?;
                add_text(element, text);
            } else if rest.starts_with("<!--") {
                self.skip_past("-->")?;
            } else if rest.starts_with("<?") {
                self.skip_past("?>")?;
            } else if rest.starts_with("</") {
                self.at += 2;
                let end = self.name()?;
                self.skip_space();
                if end != full_name || !self.rest().starts_with('>') {
                    return Err(self.wrong(format!("</{end}> for <{full_name}>")));
                }
                self.at += 1;
                return Ok(());
            } else {
                element.children.push(self.element(depth + 1)?);
            }
        }
    }

    fn unescape(&self, raw: &str) -> Result<String, XmlError> {
        let mut text = String::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(start) = rest.find('&') {
            text.push_str(&rest[..start]);
            let unknown = || self.wrong("an entity that is not known");
            let end = rest[start..].find(';').ok_or_else(unknown)? + start;
            let name = &rest[start + 1..end];
            let number =
                |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
            let letter = match name {
                "amp" => Some('&'),
                "lt" => Some('<'),
                "gt" => Some('>'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                _ => match name.strip_prefix("#x") {
                    Some(digits) => number(digits, 16),
                    None => name.strip_prefix('#').and_then(|digits| number(digits, 10)),
                },
            };
            text.push(letter.ok_or_else(unknown)?);
            rest = &rest[end + 1..];
        }
        text.push_str(rest);
        Ok(text)
    }
}

fn add_text(element: &mut Element, text: &str) {
    if element.children.is_empty() {
        element.text.push_str(text);
    }
    element.whole_text.push_str(text);
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
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
    fn what_is_no_document_is_an_error() {
        let deep = "<a>".repeat(100_000);
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
            deep.as_str(),
        ] {
            let short = &text[..text.len().min(40)];
            assert!(Element::parse(text).unwrap_err().to_string().starts_with("XML: "), "{short}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_fatal(text in "[<>/a &;\"'=!\\[\\]-]{0,40}") {
            let _ = Element::parse(&text);
        }
    }
}
