//! Child processes of a test.

/// Runs `child` in a child process, which ends with its answer as status.
pub(crate) fn fork(child: impl FnOnce() -> u8) -> libc::pid_t {
    // SAFETY: the child calls the library, which is made for it, and ends without the destructors of this process's tests.
    match unsafe { libc::fork() } {
        0 => {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(250);
            // SAFETY: it ends the process.
            unsafe { libc::_exit(status.into()) }
        }
        pid => pid,
    }
}

/// The exit status of a child, or the signal that killed it as a negative number.
pub(crate) fn status(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the status can be written.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

/// Kills a child, and waits for its end.
pub(crate) fn kill(pid: libc::pid_t) {
    // SAFETY: a child of this process that was not waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    assert_eq!(status(pid), -libc::SIGKILL);
}
