//! The secret of one run, with which the command authenticates to the proxy.

use std::fmt;

#[cfg(feature = "http")]
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// 256 random bits, in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The user name sent with the secret; both protocols require one.
pub(crate) const USER: &str = "stockade";

impl Secret {
    /// Generates a secret.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret itself, for the command's environment alone.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is the value of a `Proxy-Authorization` header that carries the secret.
    #[cfg(feature = "http")]
    pub(crate) fn is_basic(&self, header: &[u8]) -> bool {
        let Some((scheme, value)) = header.split_at_checked(6) else { return false };
        let wanted = STANDARD.encode(format!("{USER}:{}", self.0));
        scheme.eq_ignore_ascii_case(b"basic ") && same(value.trim_ascii(), wanted.as_bytes())
    }

    /// Whether a user's name and password are the right ones.
    pub(crate) fn is(&self, user: &[u8], password: &[u8]) -> bool {
        same(user, USER.as_bytes()) & same(password, self.0.as_bytes())
    }
}

/// Compares in constant time.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Hides the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_itself_opens() {
        let secret = Secret::random().unwrap();
        assert_ne!(secret, Secret::random().unwrap());
        assert_eq!(secret.expose().len(), 64);
        let basic = format!("Basic {}", STANDARD.encode(format!("stockade:{}", secret.expose())));
        assert!(secret.is_basic(basic.as_bytes()));
        assert!(secret.is_basic(basic.replace("Basic", "bASIC").as_bytes()));
        for wrong in ["", "Basic ", "Basic c3RvY2thZGU6", "Bearer x", &basic[..basic.len() - 1], &format!("{basic}A")] {
            assert!(!secret.is_basic(wrong.as_bytes()), "{wrong}");
        }
        assert!(secret.is(b"stockade", secret.expose().as_bytes()));
        assert!(!secret.is(b"other", secret.expose().as_bytes()));
        assert!(!secret.is(b"stockade", b""));
        assert!(!format!("{secret:?}").contains(secret.expose()));
    }
}
