/* For programs that say where their iterations begin. Nothing needs to be linked, and nothing
   happens unless `reprise record` or `reprise replay` started the program; then a mark of the
   calling thread is recorded. `reprise info` counts marks, and `reprise plan --loop marks` looks
   for loops between them.

       #include <reprise/marks.h>
       for (i = 0; i < steps; ++i) {
         reprise_iteration();
         step(i);
       }
*/
#ifndef REPRISE_MARKS_H_
#define REPRISE_MARKS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* What the preload library defines; a null pointer without it. */
void reprise_iteration_begins(void) __attribute__((weak));

/* An iteration begins here. Costs a load and a branch, and a call where the library is. */
static __inline__ void reprise_iteration(void) {
  void (*begins)(void);
#if defined(__x86_64__) && !defined(__PIC__)
  /* A linker resolves the address of a weak function to null in code for a fixed address, but not
     where it is read from the table of addresses. */
  __asm__(
      ".weak reprise_iteration_begins\n\t"
      "{movq reprise_iteration_begins@GOTPCREL(%%rip), %0"
      "|mov %0, QWORD PTR reprise_iteration_begins@GOTPCREL[rip]}"
      : "=r"(begins));
#else
  begins = reprise_iteration_begins;
#endif
  if (begins) begins();
}

#ifdef __cplusplus
}
#endif

#endif /* REPRISE_MARKS_H_ */
