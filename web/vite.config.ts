import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const OUT = "../src/corral/pages";
const PACKED = /\.(js|css|html|svg|json)$/;
const LEAST_PACKED_BYTES = 1024;

/** The server sends these as they are, and packs nothing while it runs. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    closeBundle() {
      for (const name of readdirSync(OUT, { recursive: true, encoding: "utf8" })) {
        if (!PACKED.test(name)) continue;
        const content = readFileSync(join(OUT, name));
        if (content.length >= LEAST_PACKED_BYTES) {
          writeFileSync(join(OUT, `${name}.gz`), gzipSync(content, { level: 9 }));
        }
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), packed()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1200,
  },
});
