reprise_test(interpose_place_test LABEL unit
  SOURCES interpose_place_test.cc LIBRARIES reprise_hooks)
# Reads what the hooks wrote. Not under a sanitizer: its runtime has hooks of its own.
if(NOT REPRISE_SANITIZE)
  reprise_test(interpose_recorder_test LABEL unit
    SOURCES interpose_recorder_test.cc LIBRARIES reprise_hooks reprise_trace)
endif()
# Not under a sanitizer: what it calls is mimalloc's own.
if(NOT REPRISE_SANITIZE)
  reprise_test(interpose_fallback_test LABEL unit
    SOURCES interpose_fallback_test.cc LIBRARIES reprise_hooks)
endif()
# Not under a sanitizer: its frames are its own business, and so is what it puts beside constants.
if(NOT REPRISE_SANITIZE)
  reprise_test(interpose_modules_test LABEL unit
    SOURCES interpose_modules_test.cc LIBRARIES reprise_hooks)
  reprise_test(interpose_unwind_test LABEL unit
    SOURCES interpose_unwind_test.cc LIBRARIES reprise_hooks)
endif()
