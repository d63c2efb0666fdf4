//! How requests travel: proxy, HTTP version, and how long to wait for what.

use std::time::Duration;

use clap::Args;
use plimsoll_load::{ProxyChoice, Secret, TargetOptions};
use plimsoll_run::units::parse_duration;
use serde::{Deserialize, Deserializer};

use crate::arguments::parse_positive_duration;
use crate::sweep_file::TargetTable;

/// How requests travel.
#[derive(Debug, Args)]
pub struct ConnectionArguments {
    /// Go through this proxy: http://HOST:PORT or socks5://HOST:PORT [default: what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
    /// NO_PROXY say; never for a loopback endpoint]
    #[arg(
        long,
        value_name = "URL",
        help_heading = "Connection",
        conflicts_with = "no_proxy"
    )]
    pub proxy: Option<String>,
    /// Connect directly whatever the environment says
    #[arg(long, help_heading = "Connection")]
    pub no_proxy: bool,
    /// Speak HTTP/2 (time stamps are coarser: several tokens may share one)
    #[arg(long, help_heading = "Connection")]
    pub http2: bool,
    /// Longest wait for a connection, TLS included [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, help_heading = "Connection")]
    pub connect_timeout: Option<Duration>,
    /// Longest wait for the first byte of a reply's body [default: as long as for the whole]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, help_heading = "Connection")]
    pub first_byte_timeout: Option<Duration>,
    /// Longest silence within a reply [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, help_heading = "Connection")]
    pub idle_timeout: Option<Duration>,
    /// Longest time for one request [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, help_heading = "Connection")]
    pub request_timeout: Option<Duration>,
}

impl ConnectionArguments {
    /// Flags first, then what the sweep file says of the target, then the defaults in `options`.
    pub fn settle(&self, table: &TargetTable, options: TargetOptions) -> TargetOptions {
        let proxy = match (&self.proxy, &table.proxy) {
            _ if self.no_proxy => ProxyChoice::Direct,
            (Some(url), _) => ProxyChoice::Url(Secret::new(url.clone())),
            (None, Some(url)) if url == "none" => ProxyChoice::Direct,
            (None, Some(url)) => ProxyChoice::Url(Secret::new(url.clone())),
            (None, None) => options.proxy,
        };
        TargetOptions {
            proxy,
            http2: self.http2 || table.http2,
            connect_timeout: self
                .connect_timeout
                .or(table.connect_timeout)
                .unwrap_or(options.connect_timeout),
            first_byte_timeout: self.first_byte_timeout.or(table.first_byte_timeout),
            idle_timeout: self
                .idle_timeout
                .or(table.idle_timeout)
                .unwrap_or(options.idle_timeout),
            request_timeout: self
                .request_timeout
                .or(table.request_timeout)
                .unwrap_or(options.request_timeout),
            ..options
        }
    }

    /// The flags given, for those who cannot use any.
    pub fn given(&self) -> [(&'static str, bool); 7] {
        [
            ("--proxy", self.proxy.is_some()),
            ("--no-proxy", self.no_proxy),
            ("--http2", self.http2),
            ("--connect-timeout", self.connect_timeout.is_some()),
            ("--first-byte-timeout", self.first_byte_timeout.is_some()),
            ("--idle-timeout", self.idle_timeout.is_some()),
            ("--request-timeout", self.request_timeout.is_some()),
        ]
    }
}

/// A time of the sweep file, above 0.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match parse_duration(&text) {
        Ok(Duration::ZERO) => Err(serde::de::Error::custom(format!(
            "`{text}` is no time to wait; write a time above 0, such as 30s, or leave it out"
        ))),
        Ok(duration) => Ok(Some(duration)),
        Err(error) => Err(serde::de::Error::custom(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(arguments: &str, table: &str) -> TargetOptions {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            connection: ConnectionArguments,
        }
        let line =
            <Line as clap::Parser>::parse_from(std::iter::once("x").chain(arguments.split_whitespace()));
        line.connection
            .settle(&toml::from_str(table).unwrap(), TargetOptions::default())
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let plain = settle("", "");
        assert!(matches!(plain.proxy, ProxyChoice::Environment) && !plain.http2);
        let filed = settle(
            "",
            "proxy = \"http://p:1\"\nhttp2 = true\nidle-timeout = \"7s\"\nfirst-byte-timeout = \"3s\"",
        );
        assert!(matches!(filed.proxy, ProxyChoice::Url(_)) && filed.http2);
        assert_eq!(filed.idle_timeout, Duration::from_secs(7));
        assert_eq!(filed.first_byte_timeout, Some(Duration::from_secs(3)));
        let direct = settle(
            "--no-proxy --idle-timeout 9s",
            "proxy = \"http://p:1\"\nidle-timeout = \"7s\"",
        );
        assert!(matches!(direct.proxy, ProxyChoice::Direct));
        assert_eq!(direct.idle_timeout, Duration::from_secs(9));
        assert!(matches!(
            settle("", "proxy = \"none\"").proxy,
            ProxyChoice::Direct
        ));
        assert!(toml::from_str::<TargetTable>("request-timeout = \"0s\"").is_err());
    }
}
