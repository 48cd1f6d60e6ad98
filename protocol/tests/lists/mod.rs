//! Documents in which a list stands in the place of one object. They are made from the text, since the order in which
//! fields are written is the order in which a derived reader takes them from a list.

/// Each object of a document in turn replaced by nothing, by the beginnings of the list of its values, and by that list
/// with empty values behind it.
pub(crate) fn in_place_of_objects(text: &str) -> Vec<String> {
    let openings = brackets(text).into_iter().filter(|(_, byte)| *byte == b'{');
    openings.flat_map(|(start, _)| replaced(text, start)).collect()
}

fn replaced(text: &str, start: usize) -> Vec<String> {
    let end = closing(text, start);
    let values = values(&text[start + 1..end]);
    let beginnings = (0..=values.len()).map(|count| values[..count].to_vec());
    let padded = (1..4).map(|count| [values.clone(), vec!["null"; count]].concat());
    let with = |list: Vec<&str>| format!("{}[{}]{}", &text[..start], list.join(","), &text[end + 1..]);
    beginnings.chain(padded).map(with).collect()
}

/// The values of the members between an object's braces.
fn values(members: &str) -> Vec<&str> {
    let mut cuts = vec![];
    let mut depth = 0;
    let (mut colon, mut begin) = (None, 0);
    for (place, byte) in brackets(members).into_iter().chain([(members.len(), b',')]) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 0 && colon.is_none() => colon = Some(place + 1),
            b',' if depth == 0 => {
                cuts.extend(colon.take().map(|from: usize| members[from.max(begin)..place].trim()));
                begin = place + 1;
            }
            _ => {}
        }
    }
    cuts
}

fn closing(text: &str, start: usize) -> usize {
    let mut depth = 0;
    for (place, byte) in brackets(&text[start..]) {
        depth += match byte {
            b'{' => 1,
            b'}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return start + place;
        }
    }
    panic!("an object without an end in {text}")
}

/// The places of the bytes that make up the structure of a text: no byte inside a string is one.
fn brackets(text: &str) -> Vec<(usize, u8)> {
    let (mut quoted, mut escaped) = (false, false);
    let mut found = vec![];
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'}' | b'[' | b']' | b':' | b',' if !quoted => found.push((place, byte)),
            _ => {}
        }
    }
    found
}
