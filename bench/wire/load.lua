-- The load of one run of wrk: LOAD_DEPTH requests are pipelined, and with
-- LOAD_CLOSE=true every request asks for the connection to be closed.
local depth = tonumber(os.getenv("LOAD_DEPTH"))

wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
wrk.headers["Accept"] = "text/html,application/xhtml+xml,*/*;q=0.8"
if os.getenv("LOAD_CLOSE") == "true" then
   wrk.headers["Connection"] = "close"
end

-- Without a request function wrk sends the same bytes without asking Lua.
if depth > 1 then
   local batch

   init = function()
      local requests = {}
      for i = 1, depth do
         requests[i] = wrk.format()
      end
      batch = table.concat(requests)
   end

   request = function()
      return batch
   end
end

done = function(summary, latency)
   local e = summary.errors
   io.write(string.format("\nRESULT %d %d %d %d\n", summary.requests,
      e.connect + e.read + e.write + e.timeout + e.status, summary.duration, latency:percentile(99)))
end
