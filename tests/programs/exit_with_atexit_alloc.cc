// Allocations and frees in atexit handlers, in destructors of static objects, and in a destructor
// function that runs after them; exit is called by a thread that is not the main one.
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "tests/programs/block.h"

namespace {

struct Static {
  std::string text = std::string(500, 's');
  ~Static() {
    Churn(1, 500);
    text += text;
    printf("static: %zu\n", text.size());
  }
};
Static object;
Block last;

__attribute__((destructor)) void Destructor() {
  Resize(last, 5000);
  Release(last);
  Churn(2, 500);
  static const char kText[] = "destructor\n";
  fflush(stdout);
  Require(write(1, kText, sizeof(kText) - 1) > 0, "write");
}

}  // namespace

int main() {
  last = Allocate(100, 1);
  atexit([] {
    Churn(3, 500);
    atexit([] { puts("handler of a handler"); });
    puts("handler");
  });
  std::thread([] {
    Churn(4, 500);
    exit(9);
  }).join();
}
