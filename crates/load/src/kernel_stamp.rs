//! The kernel's own time of receipt, by Linux's `SO_TIMESTAMPING`.
//!
//! Software receive stamps need no privileges and work in containers, over loopback, and below TLS. One stamp dates the
//! last bytes of a read.

#![expect(
    unsafe_code,
    reason = "two system calls that no safe wrapper offers for uninitialised buffers"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

use tokio::net::TcpStream;

/// Asks the kernel to stamp what this socket receives; says whether it will.
pub(crate) fn enable(socket: &TcpStream) -> bool {
    let flags: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the option's value is a `c_uint` that lives through the call, and its length is given.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            std::ptr::from_ref(&flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    outcome == 0
}

/// Room for the control message with three `timespec`s, aligned as its header wants it.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Receives without blocking into `buffer`: how many bytes came, and when the kernel got the last of them, in nanoseconds
/// of `CLOCK_REALTIME`. `Ok((0, _))` is the end of the stream.
pub(crate) fn receive(socket: RawFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Option<i128>)> {
    let mut control = Control([0; 128]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zero is a valid `msghdr`: no address, no buffers, no control.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: `message` points to `part` and `control`, both alive, with their true lengths; the kernel writes no more.
    let received = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_DONTWAIT) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel left well-formed control messages within `msg_controllen`; the CMSG macros stay inside it, and
    // the data are read unaligned and only when their length says that a `timespec` is there.
    let stamp = unsafe {
        let mut stamp = None;
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let needed = libc::CMSG_LEN(size_of::<libc::timespec>() as libc::c_uint) as usize;
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SO_TIMESTAMPING
                && (*header).cmsg_len as usize >= needed
            {
                let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
                stamp = (ns > 0).then_some(ns);
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        stamp
    };
    // It is not negative and no larger than the buffer.
    Ok((received as usize, stamp))
}
