//! A server that answers exactly as told: the truth that timing tests compare with.
