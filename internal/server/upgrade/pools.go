package upgrade

import "sync"

// searchPool holds searches that have found nothing. A call of Values owns one.
var searchPool = sync.Pool{New: newSearch}
