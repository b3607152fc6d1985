/* A store into a mapped file that survives the loss of the page: used by _shared_block.pyx alone.
 *
 * The kernel sends SIGBUS for a store that it cannot put into the file: the file was cut by another process, a file
 * system that copies on write is full, or the disk has failed. The handler returns from the store then. Any other
 * SIGBUS goes to the handler that was there before, as if there were none of ours. One store at a time: the GIL.
 */
#ifndef LOGSTORE_SHARED_BLOCK_H
#define LOGSTORE_SHARED_BLOCK_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

static struct sigaction logstore_bus_before;
static int logstore_bus_installed;
static volatile sig_atomic_t logstore_bus_guarded;
static pthread_t logstore_bus_thread;
static sigjmp_buf logstore_bus_return;

static void logstore_bus_handle(int number, siginfo_t *info, void *context) {
    if (logstore_bus_guarded && pthread_equal(pthread_self(), logstore_bus_thread)) {
        logstore_bus_guarded = 0;
        siglongjmp(logstore_bus_return, 1);
    }
    if (logstore_bus_before.sa_flags & SA_SIGINFO) {
        logstore_bus_before.sa_sigaction(number, info, context);
    } else if (logstore_bus_before.sa_handler == SIG_DFL) {
        /* A fault comes again on return, and ends the process; a signal that a process has sent does not. */
        sigaction(SIGBUS, &logstore_bus_before, NULL);
        if (info->si_code <= 0) raise(number);
    } else if (logstore_bus_before.sa_handler != SIG_IGN) {
        logstore_bus_before.sa_handler(number);
    } else if (info->si_code > 0) {
        /* The kernel does not let a fault be ignored. */
        signal(SIGBUS, SIG_DFL);
    }
}

/* Whether a SIGBUS of this thread would reach our handler, which the first call installs. */
static int logstore_bus_is_handled(void) {
    struct sigaction now, ours;
    sigset_t blocked;
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0 || sigismember(&blocked, SIGBUS)) return 0;
    if (sigaction(SIGBUS, NULL, &now) != 0) return 0;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == logstore_bus_handle) return 1;
    /* Another handler has come since: it may not call ours, and ours must not call it in a circle. */
    if (logstore_bus_installed) return 0;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = logstore_bus_handle;
    /* Not deferred: the handler jumps out, and the signal would stay blocked. */
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    logstore_bus_before = now;
    if (sigaction(SIGBUS, &ours, NULL) != 0) return 0;
    logstore_bus_installed = 1;
    return 1;
}

/* File systems whose files are the same in memory and for pread: those of this machine's page cache. */
static int logstore_is_one_in_memory(int fd) {
    struct statfs found;
    if (fstatfs(fd, &found) != 0) return 0;
    switch ((unsigned long)found.f_type & 0xFFFFFFFFUL) {
    case 0xEF53UL:     /* ext2, ext3, ext4 */
    case 0x58465342UL: /* XFS */
    case 0x9123683EUL: /* btrfs */
    case 0xF2F52010UL: /* F2FS */
    case 0x01021994UL: /* tmpfs */
    case 0x794C7630UL: /* overlayfs, on one of them */
        return 1;
    default:
        return 0;
    }
}

static uint8_t *logstore_map_shared(int fd, size_t size) {
    void *found;
    if (!logstore_is_one_in_memory(fd) || !logstore_bus_is_handled()) return NULL;
    found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return found == MAP_FAILED ? NULL : (uint8_t *)found;
}

/* Store bytes twice, one copy after the other. 0, or -1 if the file has no page for them. */
static int logstore_store_twice(uint8_t *to, const uint8_t *from, size_t size) {
    logstore_bus_thread = pthread_self();
    if (sigsetjmp(logstore_bus_return, 0) != 0) return -1;
    logstore_bus_guarded = 1;
    /* What was written to other files is seen before the first copy, and that before the second. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(to, from, size);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(to + size, from, size);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    logstore_bus_guarded = 0;
    return 0;
}

#endif
