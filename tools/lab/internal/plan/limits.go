// Package plan decides with how many processes, addresses and ports the lab
// holds a number of connections, and says what stands in the way. It looks at
// nothing itself: limits come in, a plan goes out.
package plan

// Limits are what a system allows.
type Limits struct {
	FilesSoft    int `json:"files_soft"`     // RLIMIT_NOFILE
	FilesHard    int `json:"files_hard"`     // what a process may raise it to
	FilesPerProc int `json:"files_per_proc"` // fs.nr_open: what root may raise that to
	FilesMax     int `json:"files_max"`      // fs.file-max
	FilesOpen    int `json:"files_open"`     // of those, in use
	PortFirst    int `json:"port_first"`     // ip_local_port_range
	PortLast     int `json:"port_last"`
	TCPPages     int `json:"tcp_pages"` // the last number of tcp_mem: pages of all socket buffers
	Backlog      int `json:"backlog"`   // somaxconn
	// Buckets is the size of the kernel's table of TCP connections (tcp_ehash_entries),
	// ChildBuckets that of a new network namespace (tcp_child_ehash_entries); 0: not
	// known, or the same.
	Buckets      int `json:"buckets"`
	ChildBuckets int `json:"child_buckets"`
	Watches      int `json:"watches"` // epoll's of one user (max_user_watches); 0: not known
	Tracked      int `json:"tracked"` // connections that a firewall keeps (nf_conntrack_max); 0: it keeps none
	// Processes is how many more processes and threads there may be; 0: not
	// known.
	Processes int `json:"processes"`
	Cores     int `json:"cores"`
	// Memory is what programs may take without swapping, bytes.
	Memory uint64 `json:"memory"`
}

const (
	// spareFiles of a process at least are for everything that is no connection.
	// Some twenty are in use whatever it does; loops and workers have more.
	spareFiles     = 100
	fixedFiles     = 40
	filesPerLoop   = 1
	filesPerWorker = 3 // of a master: a socket, and two that tell how the worker is
	// maxAddresses is how many addresses serverAddress and clientAddress know.
	maxAddresses = 250 * 256
	// bufferedPages is what a request takes on its way: a socket's first byte
	// reserves a page, on both sides.
	bufferedPages = 2
)

// filesFor returns how many connections one process can hold, which has a loop for
// each core in each of two servers at most.
func (l Limits) filesFor() int {
	return max(l.FilesHard-min(sparedFor(2*l.Cores*filesPerLoop), l.FilesHard/2), 1)
}

// sparedFor returns how many descriptors a process has beside its connections, where
// its loops or workers have so many.
func sparedFor(files int) int { return max(spareFiles, fixedFiles+files) }

// addressesFor returns how many addresses clients may take for so many connections.
func (l Limits) addressesFor(conns int) int {
	processes := divided(conns, l.filesFor())
	return divided(conns, l.perPair()) + 2*processes + l.Cores // one may be left half used at the end of each
}

// ports returns how many connections may go from one address to another
// address and port.
func (l Limits) ports() int { return max(l.PortLast-l.PortFirst+1, 1) }

// perPair returns how many connections are planned for two addresses. The kernel
// looks for a free port among half of them first, and for long when few are left.
func (l Limits) perPair() int { return max(l.ports()/4, 1) }

// InFlight returns how many requests may be on their way at the same time
// without the system running out of socket buffers: half of what there is.
func (l Limits) InFlight() int {
	if l.TCPPages <= 0 {
		return defaultInFlight
	}
	return max(l.TCPPages/bufferedPages/2, 1)
}

// defaultInFlight serves where nothing is known.
const defaultInFlight = 10_000
