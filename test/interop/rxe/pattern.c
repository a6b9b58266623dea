/* Preloaded into perftest, which fills its buffer with what rand() says: then every byte is 13 more than the one before it, and can be checked. */
#include <stdlib.h>

int rand(void) {
  static unsigned calls;
  return (int)(calls++ * 13 & 0x7fffffff);
}
