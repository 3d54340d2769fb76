//! Memory that holds machine code: written once, then executable and never written again.

use std::ptr::NonNull;

/// Pages with code.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing writes to the pages once they are made.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages with a copy of the code; none where the system does not give any.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        // SAFETY: a new anonymous mapping at a place of the system's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                code.len(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let pages = Self { start: NonNull::new(start.cast())?, len: code.len() };
        // SAFETY: the mapping is writable, as long as the code, and ours alone.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), pages.start.as_ptr(), code.len()) };
        // SAFETY: the whole mapping is ours.
        let is_executable = unsafe { libc::mprotect(start, code.len(), libc::PROT_READ | libc::PROT_EXEC) } == 0;
        is_executable.then_some(pages)
    }

    /// The address of a byte of the code.
    pub(super) fn address(&self, offset: usize) -> *const u8 {
        assert!(offset < self.len, "an offset within the code");
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and code runs only while its pages are borrowed.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
