/* A unit for Model Exchange, FMI 2.0: der(x) = -k x. It aborts below x = 0.5 where k is 2, hangs there where k is 3. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct { double time, x, k; } Instance;
typedef struct { int needed, over, nominals, states, defined; double next; } EventInfo;

void *fmi2Instantiate(const char *name, int kind, const char *token, const char *resources, const void *callbacks,
                      int visible, int logging) {
    Instance *made = calloc(1, sizeof(Instance));
    made->x = 1;
    made->k = 1;
    return made;
}
void fmi2FreeInstance(void *c) { free(c); }
int fmi2Terminate(void *c) { return 0; }
int fmi2SetupExperiment(void *c, int a, double b, double start, int d, double e) { return 0; }
int fmi2EnterInitializationMode(void *c) { return 0; }
int fmi2ExitInitializationMode(void *c) { return 0; }
int fmi2EnterEventMode(void *c) { return 0; }
int fmi2EnterContinuousTimeMode(void *c) { return 0; }
int fmi2NewDiscreteStates(void *c, EventInfo *info) {
    EventInfo nothing = {0};
    *info = nothing;
    return 0;
}
int fmi2CompletedIntegratorStep(void *c, int prior, int *event, int *over) {
    *event = *over = 0;
    return 0;
}
int fmi2SetTime(void *c, double time) {
    ((Instance *)c)->time = time;
    return 0;
}
int fmi2SetContinuousStates(void *c, const double *x, size_t n) {
    ((Instance *)c)->x = x[0];
    return 0;
}
int fmi2GetContinuousStates(void *c, double *x, size_t n) {
    x[0] = ((Instance *)c)->x;
    return 0;
}
int fmi2GetDerivatives(void *c, double *d, size_t n) {
    Instance *of = c;
    if (of->x < 0.5 && of->k == 2) abort();
    while (of->x < 0.5 && of->k == 3) sleep(1);
    d[0] = -of->k * of->x;
    return 0;
}
int fmi2GetEventIndicators(void *c, double *z, size_t n) { return 0; }
int fmi2GetReal(void *c, const unsigned *refs, size_t n, double *values) {
    Instance *of = c;
    for (size_t i = 0; i < n; i++) values[i] = refs[i] == 0 ? of->x : refs[i] == 1 ? -of->k * of->x : of->k;
    return 0;
}
int fmi2SetReal(void *c, const unsigned *refs, size_t n, const double *values) {
    Instance *of = c;
    for (size_t i = 0; i < n; i++) {
        if (refs[i] == 0) of->x = values[i];
        if (refs[i] == 2) of->k = values[i];
    }
    return 0;
}
int fmi2GetInteger(void *c, const unsigned *refs, size_t n, int *values) { return 3; }
int fmi2SetInteger(void *c, const unsigned *refs, size_t n, const int *values) { return 3; }
int fmi2GetBoolean(void *c, const unsigned *refs, size_t n, int *values) { return 3; }
int fmi2SetBoolean(void *c, const unsigned *refs, size_t n, const int *values) { return 3; }
