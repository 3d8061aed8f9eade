/* The least that shows an installed Sluice works: the header is C99 and the library answers. */
#include <sluice.h>
#include <stdio.h>

int main(void) {
    printf("linked with sluice %s\n", sluice_version());
    return 0;
}
