/* How fast this machine multiplies matrices: what a training run is measured by. */
#ifndef FF_CLI_PEAK_H
#define FF_CLI_PEAK_H

/* FLOP/s of the engine's product on one core: the best of some 50 ms. */
double ff_product_flops(void);
/* Cores that this process may use. */
int ff_usable_cores(void);

#endif
