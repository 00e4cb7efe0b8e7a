// What every user pays: compiled by header_cost.sh to see how long the public header takes.
#include <caravan/caravan.h>
