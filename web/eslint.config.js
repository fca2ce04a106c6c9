import jsxA11y from "eslint-plugin-jsx-a11y";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["src/api/schema.d.ts", "node_modules"] },
  tseslint.configs.strict,
  jsxA11y.flatConfigs.recommended,
  reactHooks.configs.flat.recommended,
  {
    rules: {
      // What scrolls must be reached by the keyboard.
      "jsx-a11y/no-noninteractive-tabindex": [
        "error",
        { tags: ["section", "div", "main"], roles: ["log", "tabpanel"] },
      ],
      // Of the table and the list of lines: this project does not use React's compiler.
      "react-hooks/incompatible-library": "off",
    },
  },
);
