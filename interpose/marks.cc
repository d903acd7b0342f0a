// What reprise/marks.h calls.
#include "interpose/hooks.h"

extern "C" __attribute__((visibility("default"))) void reprise_iteration_begins() {
  reprise::interpose::HookMark();
}
