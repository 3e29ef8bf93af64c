#include "tenon/base/descriptor.h"

#include <cerrno>

#include <unistd.h>

namespace tenon {

void Descriptor::close() {
  if (number_ < 0) return;
  // A function that fails may close its file before it reads errno.
  const int error = errno;
  ::close(std::exchange(number_, -1));
  errno = error;
}

}  // namespace tenon
