// A setting with a few values.

export type Option = [value: string, label: string];

interface ChoiceProps {
  label: string;
  name: string;
  value: string;
  options: Option[];
  onChoose: (value: string) => void;
  /** Whether it is marked unless its value is the empty one. */
  isMarked?: boolean;
  isDisabled?: boolean;
}

export function Choice({ label, name, value, options, onChoose, isMarked = false, isDisabled = false }: ChoiceProps) {
  return (
    <label class={`choice${isMarked && value !== "" ? " on" : ""}`}>
      <span>{label}</span>
      <select name={name} value={value} disabled={isDisabled} onChange={(event) => onChoose(event.currentTarget.value)}>
        {options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
        {!options.some(([key]) => key === value) && <option value={value}>{value}</option>}
      </select>
    </label>
  );
}

/** Options whose labels are their values. */
export const plain = (values: string[]): Option[] => values.map((value) => [value, value]);
