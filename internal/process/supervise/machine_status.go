package supervise

// status returns a snapshot of the state.
func (f *fleet) status() *Status {
	st := &Status{
		Wanted:         f.wanted,
		MaxWorkers:     f.config.MaxWorkers,
		Ready:          f.mode == modeRunning && f.isReady(),
		Rolling:        f.rolling == rollingForward || f.rolling == rollingBack,
		Soaking:        f.rolling == rollingSoak,
		Version:        f.target.number,
		GoodVersion:    f.good.number,
		Degraded:       f.degraded,
		Paused:         f.mode == modePaused,
		Stopping:       f.isEnding(),
		Started:        f.stage == stageReady,
		Crashes:        f.crashesTotal,
		Restarts:       f.restarts,
		RestartsFailed: f.failures,
		RestartError:   f.failure,
		Slots:          make([]SlotStatus, 0, len(f.slots)),
	}
	for _, s := range f.slots {
		one := SlotStatus{Slot: s.id, Retired: s.retired, RespawnAt: s.respawnAt, Adopter: -1, Generation: s.generation,
			Restarts: max(s.starts-1, 0), Crashes: s.crashes, Hangs: s.hangs, Since: s.since, Cause: s.cause, Crash: s.crash, Crashed: s.crashedAt}
		if s.version != nil {
			one.Version = s.version.number
		}
		if s.adopter != nil {
			one.Adopter = s.adopter.slot
		}
		for _, w := range s.workers() {
			one.Workers = append(one.Workers, WorkerStatus{
				Generation: w.generation, PID: w.pid, Phase: w.phase, Attached: w.attached, Started: w.started, Version: w.version.number,
			})
		}
		st.Slots = append(st.Slots, one)
	}
	return st
}
