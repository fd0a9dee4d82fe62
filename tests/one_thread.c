/*
 * Loaded before programs that are listed as those of one thread (cmake/threads.cmake), which
 * the build for the race detector leaves out: whoever starts a second one after all ends here.
 * Not with GYRE_SOAK, where programs do more.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *arg)
{
    static const char words[] =
        "a second thread, in a test that cmake/threads.cmake lists as one of a single thread: "
        "take it from that list\n";
    if (getenv("GYRE_SOAK") != NULL) {
        int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
        void *found = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &found, sizeof(real));
        return real(thread, attributes, run, arg);
    }
    (void)!write(STDERR_FILENO, words, strlen(words));
    abort();
}
