-- The load of one run of wrk: LOAD_DEPTH requests are pipelined, with
-- LOAD_CLOSE=true every request asks for the connection to be closed, and with
-- LOAD_BROWSER=true it has the head of a browser's request.
local depth = tonumber(os.getenv("LOAD_DEPTH"))

if os.getenv("LOAD_BROWSER") == "true" then
   wrk.headers = {
      ["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
      ["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
      ["Accept-Language"] = "en-GB,en;q=0.9,de;q=0.8",
      ["Accept-Encoding"] = "gzip, deflate, br, zstd",
      ["Referer"] = "http://www.example.com/articles/2026/11/",
      ["Cookie"] = "session=2f7d9c1e8a6b4350; theme=dark; consent=all; _ga=GA1.1.1234567890.1700000000; _gid=GA1.1.987654321.1700000000; cart=8e1f0c7a5b3d9246f01e; last=%2Farticles%2F2026%2F10%2F",
      ["Upgrade-Insecure-Requests"] = "1",
      ["Sec-Fetch-Dest"] = "document",
      ["Sec-Fetch-Mode"] = "navigate",
      ["Sec-Fetch-Site"] = "same-origin",
      ["Cache-Control"] = "max-age=0",
   }
else
   wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
   wrk.headers["Accept"] = "text/html,application/xhtml+xml,*/*;q=0.8"
end
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
   io.write(string.format("\nRESULT %d %d %d %d %d %d %d %d %d %d\n", summary.requests, summary.duration,
      e.connect, e.read, e.write, e.timeout, e.status,
      latency:percentile(50), latency:percentile(99), latency.max))
end
